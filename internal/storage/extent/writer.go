package extent

import (
	"io"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Writer takes content and appends it as records. It must be used by one goroutine only.
type Writer struct {
	s      *Store
	lane   *lane // nil until the first record
	hint   int64
	buf    *buffer // nil if empty
	n      int     // bytes of payload in buf
	sum    uint32  // the CRC of them, which is computed while they are in the cache of the processor
	slices []Slice
	pins   []*extent
	ended  int64 // end of the last record in the last of pins
	err    error
	keep   bool         // the last record stays in buf, for CommitLogged
	mirror MirrorWriter // nil for a single machine, or before the first record
	done   bool         // committed or closed
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)

// NewWriter returns a Writer. sizeHint is the expected length in bytes, -1 if unknown. It need not be right: it
// determines how much memory the writer allocates, and which extent the content goes to.
func (s *Store) NewWriter(sizeHint int64) *Writer { return &Writer{s: s, hint: sizeHint} }

// Write appends p to the content. An error is final: every later call returns it.
func (w *Writer) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		space, err := w.space(len(p))
		if err != nil {
			return total - len(p), err
		}
		n := copy(space, p)
		w.add(space[:n])
		p = p[n:]
	}
	return total, nil
}

// ReadFrom appends all of r without an additional copy. Its error is that of r, or a final error as that of Write.
func (w *Writer) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		space, err := w.space(1)
		if err != nil {
			return total, err
		}
		n, err := r.Read(space)
		w.add(space[:n])
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// add adds bytes that are in the space of the buffer.
func (w *Writer) add(p []byte) {
	w.n += len(p)
	w.sum = crc32c.Update(w.sum, p)
}

// space returns the free part of the buffer, at least one byte, given that want bytes are expected.
func (w *Writer) space(want int) ([]byte, error) {
	if w.err == nil && w.done {
		w.err = ErrClosed
	}
	if w.err != nil {
		return nil, w.err
	}
	switch {
	case w.buf == nil:
		// The hint determines the first buffer; the next ones have MaxRecord, or the size that is left.
		hint := w.hint - w.total()
		if w.hint < 0 {
			hint = int64(want)
		}
		if w.hint >= bulkThreshold || w.lane != nil && w.lane.direct {
			hint = max(hint, bulkThreshold)
		}
		w.buf = newBuffer(max(hint, int64(want)))
	case w.n < w.buf.capacity():
	case w.n < MaxRecord:
		grown := newBuffer(int64(w.n) * 4)
		copy(grown.payload(), w.buf.payload())
		w.buf.free()
		w.buf = grown
	default:
		if w.err = w.flush(false); w.err != nil {
			return nil, w.err
		}
		return w.space(want)
	}
	return w.buf.payload()[w.n:], nil
}

func (w *Writer) total() int64 {
	var n int64
	for _, s := range w.slices {
		n += s.Length
	}
	return n
}

// flush appends the buffer as one record. last is set if no other record follows.
func (w *Writer) flush(last bool) error {
	if w.n == 0 {
		return nil
	}
	if w.lane == nil {
		w.lane = w.s.choose(max(w.hint, int64(w.n)))
		w.lane.writers.Add(1)
	}
	record := w.buf.bytes[:recordHeaderSize+w.n]
	slice, err := w.lane.append(w, record, w.sum)
	if err != nil {
		return err
	}
	w.slices = append(w.slices, slice)
	w.ended = slice.Offset + slice.Length
	if err := w.mirrorRecord(record, slice, last); err != nil {
		return err
	}
	if !w.keep {
		w.buf.free()
		w.buf, w.n, w.sum = nil, 0, 0
	}
	return nil
}

// choose returns the lane for content of that size.
func (s *Store) choose(size int64) *lane {
	if size < bulkThreshold {
		return s.small
	}
	best := s.bulk[0]
	for _, l := range s.bulk[1:] {
		if l.writers.Load() < best.writers.Load() {
			best = l
		}
	}
	return best
}

// pin keeps Compact from deleting e until Close. The extents of a lane follow each other, so only the last pin can be
// e. The caller must hold the lane's lock, and e must be its active extent.
func (w *Writer) pin(e *extent) {
	if n := len(w.pins); n == 0 || w.pins[n-1] != e {
		e.writers.Add(1)
		w.pins = append(w.pins, e)
	}
}

// Commit makes the content durable, on a majority of the nodes of a cluster, and returns its slices, in order. Empty
// content has no slices. After an error nothing is stored, and the content must be written again.
func (w *Writer) Commit() ([]Slice, error) {
	if w.err == nil && w.done {
		w.err = ErrClosed
	}
	if w.err == nil {
		w.err = w.flush(true)
	}
	if w.err != nil {
		return nil, w.err
	}
	w.done = true
	if !w.s.durable() {
		return w.slices, nil
	}
	for i, e := range w.pins {
		end := w.ended
		if i < len(w.pins)-1 {
			e.mu.Lock()
			end = e.size // sealed meanwhile
			e.mu.Unlock()
		}
		if err := e.syncTo(end); err != nil {
			w.err = err
			return nil, err
		}
	}
	if w.mirror != nil {
		if w.err = w.mirror.Commit(); w.err != nil {
			return nil, w.err
		}
	}
	return slices.Clip(w.slices), nil
}

// Close releases the writer's pins: from then on, its content is dead unless the metadata refers to it. Without a
// Commit, the content is discarded. Closing twice is allowed; the error is always nil.
func (w *Writer) Close() error {
	w.done = true
	if w.mirror != nil {
		w.mirror.Close()
		w.mirror = nil
	}
	if w.buf != nil {
		w.buf.free()
		w.buf, w.n = nil, 0
	}
	for _, e := range w.pins {
		e.writers.Add(-1)
	}
	w.pins = nil
	if w.lane != nil {
		w.lane.writers.Add(-1)
		w.lane = nil
	}
	return nil
}
