package extent

import (
	"errors"
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Reader reads a range of a list of slices. It must be used by one goroutine only. While it is open, the extents that
// it reads from are not deleted.
type Reader struct {
	s      *Store
	slices []piece // the remaining slices; the first may be partly read
	pins   []*extent
	cur    *handle  // of slices[0]'s extent, if any
	mapped mapping  // of cur's file
	remote *fetched // the last record that was taken from the tier
	closed bool
}

// piece is a part of a slice that is yet to be read.
type piece struct {
	Slice
	whole   Slice
	checked bool // this reader has verified the record that contains the piece
	healed  bool // this reader has replaced the record
}

// record returns what identifies the record that contains the piece.
func (x *piece) record() Slice {
	if x.whole.CRC != 0 && x.whole.Length <= MaxRecord {
		return x.whole
	}
	return x.Slice
}

var (
	_ io.ReadCloser = (*Reader)(nil)
	_ io.WriterTo   = (*Reader)(nil)
)

// smallRead is the largest size that is copied through memory. For such sizes a copy is cheaper than a copy by the
// kernel, and the bytes can be sent together with the response's header.
const smallRead = 64 << 10

// NewReader returns a Reader of n bytes from offset off of the concatenation of slices. The caller must close it.
//
// Errors: ErrRange, ErrNotFound (see there), ErrCorrupt if an extent is too short, ErrClosed.
func (s *Store) NewReader(slices []Slice, off, n int64) (*Reader, error) {
	r := &Reader{s: s}
	if err := r.Reset(slices, off, n); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Reset makes r read another range, or the same again, as NewReader would. Extents that r has read from before still
// exist, because r holds them.
func (r *Reader) Reset(slices []Slice, off, n int64) error {
	if r.closed {
		return ErrClosed
	}
	if off < 0 || n < 0 {
		return fmt.Errorf("%w: %d bytes from %d", ErrRange, n, off)
	}
	r.slices = nil
	for len(slices) > 0 && off >= slices[0].Length {
		off -= slices[0].Length
		slices = slices[1:]
	}
	for _, x := range slices {
		if n == 0 {
			break
		}
		whole := x
		x = x.Sub(off, min(x.Length-off, n))
		off = 0
		n -= x.Length
		if x.Length == 0 {
			continue
		}
		if err := r.pin(x); err != nil {
			return err
		}
		r.slices = append(r.slices, piece{Slice: x, whole: whole})
	}
	if n > 0 {
		return fmt.Errorf("%w: %d bytes past the end", ErrRange, n)
	}
	return nil
}

// pin keeps x's extent until Close. A node of a cluster that does not have x fetches it.
func (r *Reader) pin(x Slice) error {
	err := r.tryPin(x)
	if err != nil {
		if err = r.s.healAfter(err, x); err == nil {
			err = r.tryPin(x)
		}
	}
	return err
}

func (r *Reader) tryPin(x Slice) error {
	for _, e := range r.pins {
		if e.id == x.Extent {
			return e.contains(x)
		}
	}
	e, err := r.s.pinForReader(x.Extent)
	if err != nil {
		return err
	}
	if r.s.opts.Tier != nil {
		e.lastUse.Store(r.s.now().UnixNano())
	}
	r.pins = append(r.pins, e)
	return e.contains(x)
}

// contains detects slices that lie outside of the extent before a response is started.
func (e *extent) contains(x Slice) error {
	e.mu.Lock()
	size := e.size
	e.mu.Unlock()
	if x.Offset < fileHeaderSize+recordHeaderSize || x.Offset > size-x.Length {
		return fmt.Errorf("%w: extent %x has %d bytes, the slice is [%d, +%d)", ErrCorrupt, e.id, size, x.Offset, x.Length)
	}
	return nil
}

// Len returns the bytes left to read.
func (r *Reader) Len() int64 {
	var n int64
	for _, x := range r.slices {
		n += x.Length
	}
	return n
}

// checkAhead is the maximum number of bytes that Check reads: four records.
const checkAhead = 4 << 20

// Check verifies the bytes that a Read or WriteTo would return first, so that damage there is found before anything was
// sent.
func (r *Reader) Check() error {
	left := r.slices
	defer func() { r.slices = left }()
	for n := int64(0); len(r.slices) > 0 && n < checkAhead; r.slices = r.slices[1:] {
		h, err := r.handle()
		switch {
		case err != nil:
		case h.file == nil:
			_, err = r.fetch(h)
		default:
			err = r.check(h)
		}
		if err != nil {
			return err
		}
		n += r.slices[0].Length
	}
	return nil
}

// check verifies the record of the first piece, unless this reader has verified it before.
func (r *Reader) check(h *handle) error {
	x := &r.slices[0]
	if x.checked {
		return nil
	}
	if x.Length > smallRead {
		h.readAhead()
	}
	err := r.s.check(h, x.Slice, x.whole)
	if err != nil && !x.healed {
		x.healed = true
		if err = r.s.healAfter(err, x.record()); err == nil {
			err = r.s.check(h, x.Slice, x.whole)
		}
	}
	x.checked = err == nil
	return err
}

// Read implements io.Reader. It returns ErrCorrupt instead of bytes of a damaged record.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n := 0
	for n < len(p) && len(r.slices) > 0 {
		h, err := r.handle()
		if err != nil {
			return n, err
		}
		x := &r.slices[0]
		to := p[n : n+int(min(int64(len(p)-n), x.Length))]
		if h.file == nil {
			bytes, err := r.fetch(h)
			if err != nil {
				return n, err
			}
			n += copy(to, bytes)
			r.advance(int64(len(to)))
			continue
		}
		// A read that takes the whole record is checked in the caller's buffer; others check the record first, since part
		// of it has no checksum.
		atOnce := r.atOnce(x, len(to))
		if !atOnce {
			if err := r.check(h); err != nil {
				return n, err
			}
		}
		m, err := h.file.ReadAt(to, x.Offset)
		// ReadAt may report io.EOF with the last bytes of the file.
		if m == len(to) {
			err = nil
		}
		if err == nil && atOnce {
			err = r.s.checkBytes(to, x.whole)
		}
		if err != nil {
			err = r.s.readError(x.Slice, err)
			// Once: if the copy from another node reads wrong, too, the disk is at fault, and a loop would not end.
			if !x.healed {
				x.healed = true
				if err = r.s.healAfter(err, x.record()); err == nil {
					continue
				}
			}
			return n, err
		}
		// Only checked bytes are counted: what is in p beyond n may be damaged, and the caller must not use it.
		n += m
		r.advance(int64(m))
	}
	if n == 0 {
		if r.closed {
			return 0, ErrClosed
		}
		return 0, io.EOF
	}
	return n, nil
}

// atOnce reports whether a read of n bytes covers a whole record that must be checked, so that reading it once
// suffices.
func (r *Reader) atOnce(x *piece, n int) bool {
	return !x.checked && x.Slice == x.whole && x.CRC != 0 && int64(n) == x.Length &&
		!(x.Length > smallRead && r.s.isChecked(x.whole))
}

// WriteTo writes the rest of the range to dst. Long content is passed as a mapping of its file, or as the file, slice
// by slice, so that a network connection behind dst can let the kernel copy it: dst and its wrappers should implement
// io.ReaderFrom. It returns ErrCorrupt instead of bytes of a damaged record.
func (r *Reader) WriteTo(dst io.Writer) (total int64, err error) {
	if r.closed {
		return 0, ErrClosed
	}
	if n := r.Len(); n <= smallRead {
		return r.copySmall(dst, n)
	}
	for len(r.slices) > 0 {
		n, err := r.writePiece(dst)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// writePiece writes the first piece: short pieces through memory, because they are read there to be checked, and so
// records that were not checked before; others from the file.
func (r *Reader) writePiece(dst io.Writer) (int64, error) {
	h, err := r.handle()
	if err != nil {
		return 0, err
	}
	// The extent is only in the tier: fetch has compared the checksum of the record.
	if h.file == nil {
		bytes, err := r.fetch(h)
		if err != nil {
			return 0, err
		}
		n, err := dst.Write(bytes)
		r.advance(int64(n))
		return int64(n), err
	}
	x := r.slices[0]
	if x.Length <= smallRead || x.Length <= MaxRecord && r.atOnce(&x, int(x.Length)) {
		if x.Length > smallRead {
			h.readAhead()
		}
		return r.copySmall(dst, x.Length)
	}
	// From here on the bytes go from the file to dst without being looked at, so they are checked first.
	if err := r.check(h); err != nil {
		return 0, err
	}
	if x.Length >= minMapped {
		if n, mapped, err := r.s.writeMapped(dst, h, &r.mapped, x.Slice, r.mapTo()); mapped {
			r.advance(int64(n))
			return int64(n), err
		}
	}
	if _, err := h.file.Seek(x.Offset, io.SeekStart); err != nil {
		return 0, r.s.readError(x.Slice, err)
	}
	n, err := io.CopyN(dst, h.file, x.Length)
	r.advance(n)
	if err == io.EOF {
		err = r.s.readError(x.Slice, err)
	}
	return n, err
}

// mapTo returns the end of the first piece and of those behind it in the file that are mapped with it.
func (r *Reader) mapTo() int64 {
	x := r.slices[0].Slice
	end := x.Offset + x.Length
	for _, next := range r.slices[1:] {
		to := next.Offset + next.Length
		if next.Extent != x.Extent || next.Offset < end || to-x.Offset > mapWindow {
			break
		}
		end = to
	}
	return end
}

func (r *Reader) copySmall(dst io.Writer, n int64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	b := newBuffer(n)
	defer b.free()
	p := b.payload()[:n]
	for done := 0; done < len(p); {
		m, err := r.Read(p[done:])
		if err != nil {
			return 0, err
		}
		done += m
	}
	m, err := dst.Write(p)
	return int64(m), err
}

// handle returns a file handle for the first slice.
func (r *Reader) handle() (*handle, error) {
	if r.closed {
		return nil, ErrClosed
	}
	id := r.slices[0].Extent
	if r.cur != nil {
		if r.cur.e.id == id {
			return r.cur, nil
		}
		r.release()
	}
	for _, e := range r.pins {
		if e.id == id {
			h, err := r.s.handles.acquire(e)
			r.cur = h
			return h, err
		}
	}
	return nil, fmt.Errorf("%w: %x", ErrNotFound, id)
}

// release gives the handle back.
func (r *Reader) release() {
	r.mapped.close()
	r.s.handles.release(r.cur)
	r.cur = nil
}

// advance drops n bytes of the first slice.
func (r *Reader) advance(n int64) {
	x := &r.slices[0]
	x.Offset += n
	x.Length -= n
	if x.Length == 0 {
		r.slices = r.slices[1:]
	}
}

// readError converts an unexpected end of file to ErrCorrupt.
func (s *Store) readError(x Slice, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.corrupt(x, "the extent is shorter")
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("extent: read: %w", err)
}

// Close releases files and pins. Closing twice is allowed; the error is always nil.
func (r *Reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.cur != nil {
		r.release()
	}
	for _, e := range r.pins {
		e.readers.Add(-1)
	}
	r.remote.giveBack()
	r.pins, r.slices, r.remote = nil, nil, nil
	return nil
}

// Verify reads the content of x and compares the checksums of its records.
//
// Errors: ErrCorrupt, ErrNotFound, or an error of the operating system.
func (s *Store) Verify(x Slice) error {
	r, err := s.NewReader([]Slice{x}, 0, x.Length)
	if err != nil || x.Length == 0 {
		return err
	}
	defer r.Close()
	h, err := r.handle()
	if err != nil {
		return err
	}
	if h.file == nil {
		for r.Len() > 0 {
			if _, err := r.fetch(h); err != nil {
				return err
			}
			r.advance(r.slices[0].Length)
		}
		return nil
	}
	record, err := s.recordOf(h, x, x)
	if err != nil {
		return err
	}
	place, _ := s.checked.entry(record)
	place.Store(0)
	return s.check(h, x, x)
}

// fetched is a record that was taken from the tier.
type fetched struct {
	Slice
	buf *buffer
}

func (r *fetched) giveBack() {
	if r != nil {
		r.buf.free()
	}
}

// has reports whether a record contains x.
func (r *fetched) has(x Slice) bool {
	return r != nil && r.Extent == x.Extent && r.Offset <= x.Offset && x.Offset+x.Length <= r.Offset+r.Length
}

// fetch returns the bytes of the first piece, whose extent has no file. They are compared with the checksum of their
// record, and are valid until the next call.
func (r *Reader) fetch(h *handle) ([]byte, error) {
	x := r.slices[0]
	if !r.remote.has(x.Slice) {
		r.remote.giveBack()
		r.remote = nil
		// What is kept on this machine may have changed there, so that it is fetched once more.
		for again := range 2 {
			found, problem, err := r.s.recordFrom(h, x.Slice, x.whole)
			if err != nil {
				return nil, fmt.Errorf("extent: read: %w", err)
			}
			if problem == "" {
				r.remote = found
				break
			}
			if again > 0 {
				return nil, r.s.corrupt(x.Slice, "of the tier: %s", problem)
			}
			r.s.opts.Tier.Forget(x.Extent, x.Offset-MaxRecord-recordHeaderSize, x.Length+2*(MaxRecord+recordHeaderSize))
		}
	}
	from := x.Offset - r.remote.Offset
	return r.remote.buf.payload()[from : from+x.Length], nil
}

// recordFrom reads the record that contains x. problem says what is wrong with its bytes, "" if nothing is.
func (s *Store) recordFrom(h *handle, x, whole Slice) (found *fetched, problem string, err error) {
	at := whole
	if whole.CRC == 0 || whole.Length > MaxRecord {
		if at, err = h.e.recordAround(h.src, x.Offset); err != nil {
			return shorter(err)
		}
		if at.Length == 0 || at.Offset+at.Length < x.Offset+x.Length {
			return nil, "there is no record", nil
		}
	}
	b := newBuffer(at.Length)
	p := b.payload()[:at.Length]
	if n, err := h.src.ReadAt(p, at.Offset); n < len(p) {
		b.free()
		return shorter(err)
	}
	if crc32c.Checksum(p) != at.CRC {
		b.free()
		return nil, "the checksum does not match", nil
	}
	return &fetched{at, b}, "", nil
}

// shorter tells content that is wrong from a tier that does not answer.
func shorter(err error) (*fetched, string, error) {
	if errors.Is(err, io.EOF) || errors.Is(err, ErrCorrupt) {
		return nil, fmt.Sprint(err), nil
	}
	return nil, "", err
}
