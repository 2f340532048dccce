package content

import (
	"crypto/cipher"
	"errors"
	"io"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Extract describes a range of a blob: the bytes of slices, with zeros between them where a page blob has no content.
// Build it with [NewExtract] and [Extract.Add].
type Extract struct {
	slices []extent.Slice
	// skip is the number of bytes of the first slice before the range.
	skip int64
	// content is the number of bytes that come from slices.
	content int64
	// runs are the lengths of the parts of the range: content, then zeros, then content, and so on. The first may be 0.
	runs []int64
	// seals are those of the content, if it is encrypted.
	seals []encryption.Run
	// at and end bound the part of the range that is still to be described.
	at, end int64
}

// NewExtract returns the extract of n bytes from off, all of them zeros.
func NewExtract(off, n int64) Extract {
	return Extract{runs: make([]int64, 1, 3), at: off, end: off + n}
}

// Add adds the bytes of p that are in the range. Pieces must be added in order.
func (x *Extract) Add(p *Piece) {
	from, to := max(p.Start, x.at), min(p.End(), x.end)
	x.zeros(from - x.at)
	if x.slices == nil {
		x.skip = from - p.Start // only the first piece can begin before the range
	}
	x.slices = append(x.slices, p.Slices...)
	if p.Seal.IV != "" {
		x.seals = append(x.seals, encryption.Run{Seal: p.Seal.At(from - p.Start), Length: to - from})
	}
	x.runs[len(x.runs)-1] += to - from
	x.content += to - from
	x.at = to
}

func (x *Extract) zeros(n int64) {
	if n > 0 {
		x.runs = append(x.runs, n, 0)
	}
}

// Reader reads a range of a blob. It keeps the extents open that it needs: content that compaction moves, or that loses
// its blob, can still be read.
type Reader struct {
	extents *extent.Store
	x       Extract
	size    int64
	// content is nil if the range has none.
	content *extent.Reader
	// opener decrypts content; nil if it is not encrypted.
	opener *encryption.Opener
	// run and done are the position: the run, and how many of its bytes were read. next is where the next Read begins, at
	// is where the last one ended: they differ after a Seek.
	run      int
	done     int64
	at, next int64
	mu       sync.Mutex // held by ReadAt, which seeks
}

// Open opens the range that x describes. id identifies the key that the content is encrypted with, block is its cipher.
func (x Extract) Open(extents *extent.Store, id encryption.ID, block cipher.Block) (*Reader, error) {
	x.zeros(x.end - x.at)
	r := &Reader{extents: extents, x: x}
	for _, n := range x.runs {
		r.size += n
	}
	if id != (encryption.ID{}) {
		if block == nil {
			return nil, encryption.ErrKeyMissing
		}
		r.opener = encryption.NewOpener(block, x.seals)
	}
	return r, r.seek(0)
}

// Size is the length of the range in bytes.
func (r *Reader) Size() int64 { return r.size }

// Rewind goes back to the first byte.
func (r *Reader) Rewind() error { return r.seek(0) }

// seek goes to an offset within the range.
func (r *Reader) seek(off int64) (err error) {
	r.at, r.next = off, off
	var content int64 // of the runs before off
	for r.run = 0; r.run < len(r.x.runs) && off > r.x.runs[r.run]; r.run++ {
		off -= r.x.runs[r.run]
		if r.run%2 == 0 {
			content += r.x.runs[r.run]
		}
	}
	if r.done = off; r.run%2 == 0 {
		content += off
	}
	switch skip, n := r.x.skip+content, r.x.content-content; {
	case r.content != nil:
		err = r.content.Reset(r.x.slices, skip, n)
	case n > 0:
		r.content, err = r.extents.NewReader(r.x.slices, skip, n)
	}
	if r.opener != nil {
		r.opener.Reset(r.content, content)
	}
	return err
}

// Close implements io.Closer. Closing twice is allowed.
func (r *Reader) Close() error {
	if r.content == nil {
		return nil
	}
	err := r.content.Close()
	r.content = nil
	return err
}

// Check verifies the checksums of what comes first, some MiB, so that damage there is an error that can still be
// answered. Later content is checked before it is sent as well.
func (r *Reader) Check() error {
	if r.content == nil {
		return nil
	}
	return r.content.Check()
}

// Contiguous reports whether the range is content without zeros, and not empty.
func (r *Reader) Contiguous() bool { return len(r.x.runs) == 1 && r.content != nil }

// CopyTo writes the whole range to w. Nothing may have been read before, unless [Reader.Rewind] was called.
func (r *Reader) CopyTo(w io.Writer) error {
	if r.opener != nil {
		chunk := TakeChunk()
		defer FreeChunk(chunk)
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, chunk[:])
		return err
	}
	if r.Contiguous() {
		n, err := io.Copy(w, r.content) // hands files to the kernel
		if err == nil && n != r.x.content {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	for i, n := range r.x.runs {
		var err error
		switch {
		case n == 0:
		case i%2 == 0:
			_, err = io.CopyN(w, r.content, n)
		default:
			err = writeZeros(w, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.next != r.at {
		if err := r.seek(r.next); err != nil {
			return 0, err
		}
	}
	for r.run < len(r.x.runs) {
		left := r.x.runs[r.run] - r.done
		if left == 0 {
			r.run, r.done = r.run+1, 0
			continue
		}
		p = p[:min(int64(len(p)), left)]
		n, err := len(p), error(nil)
		if r.run%2 == 0 {
			if n, err = r.readContent(p); err == io.EOF && n > 0 {
				err = nil
			} else if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		} else {
			clear(p)
		}
		r.done += int64(n)
		r.at += int64(n)
		r.next = r.at
		return n, err
	}
	return 0, io.EOF
}

// readContent reads content, decrypted.
func (r *Reader) readContent(p []byte) (int, error) {
	if r.opener != nil {
		return r.opener.Read(p)
	}
	return r.content.Read(p)
}

// ErrSeek means that a Seek would leave the range.
var ErrSeek = errors.New("content: seek outside the range")

// Seek implements io.Seeker. It costs nothing until the next Read.
func (r *Reader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += r.next
	case io.SeekEnd:
		off += r.size
	}
	if off < 0 || off > r.size {
		return r.next, ErrSeek
	}
	r.next = off
	return off, nil
}

// ReadAt implements io.ReaderAt. It moves the position of Read; calls of ReadAt may be concurrent.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 || off >= r.size {
		return 0, io.EOF
	}
	if err := r.seek(off); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

var zeros [64 << 10]byte

func writeZeros(w io.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

var (
	_ io.ReadSeekCloser = (*Reader)(nil)
	_ io.ReaderAt       = (*Reader)(nil)
)
