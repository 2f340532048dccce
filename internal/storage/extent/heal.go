package extent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Mirror makes writers copy what they write, and readers fetch what is missing or damaged. owner is the number of this
// node. It must be called before the first writer.
func (s *Store) Mirror(m Mirror, owner uint64) error {
	if owner > MaxOwner {
		return fmt.Errorf("extent: the owner is %d: want 0 to %d", owner, MaxOwner)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID = owner<<ownerShift | uint64(s.now().UnixMilli())/idMillis
	// The clock may have been set back since the newest extent was created.
	for id := range s.extents {
		if id>>ownerShift == owner {
			s.nextID = max(s.nextID, id+1)
		}
	}
	s.mirror.Store(&mirrored{m, owner})
	return nil
}

// Healed returns the number of damaged records since Open that were replaced by those of other nodes.
func (s *Store) Healed() int64 { return s.healed.Load() }

// healAfter replaces the record that contains x by that of another node, after a read of it has failed with err. It
// returns nil if the read can be tried again.
func (s *Store) healAfter(err error, x Slice) error {
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) || s.mirror.Load() == nil {
		return err
	}
	if failed := s.heal(x); failed != nil {
		return fmt.Errorf("%w; %w", failed, err)
	}
	return nil
}

func (s *Store) heal(x Slice) error {
	m := s.mirror.Load()
	s.mu.RLock()
	e := s.extents[x.Extent]
	s.mu.RUnlock()
	offset, record, err := m.Fetch(x)
	if err != nil {
		return err
	}
	if err := s.Put(x.Extent, offset, record); err != nil {
		return err
	}
	// In a partial copy the record was only missing. Anywhere else its bytes on this disk had changed, which is counted.
	if e != nil && !e.isPartial() {
		s.healed.Add(1)
		m.Healed(x)
	}
	return nil
}

// Unwritten reports whether the place of a slice has nothing: the extent does not exist, ends before it, or has zeros
// there, as a copy that has missed the record.
func (s *Store) Unwritten(x Slice) (bool, error) {
	e, err := s.pinForReader(x.Extent)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer e.readers.Add(-1)
	h, err := s.handles.acquire(e)
	if err != nil {
		return false, err
	}
	defer s.handles.release(h)
	buf := make([]byte, 64<<10)
	for at, end := x.Offset, x.Offset+x.Length; at < end; {
		n, err := h.src.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if len(bytes.TrimLeft(buf[:n], "\x00")) > 0 {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		at += int64(n)
	}
	return true, nil
}

// mirrorRecord copies a record to other nodes, unless it goes to the log of the metadata, which all nodes receive.
func (w *Writer) mirrorRecord(record []byte, x Slice, last bool) error {
	m := w.s.mirror.Load()
	if m == nil || w.keep {
		return nil
	}
	if w.mirror == nil {
		w.mirror = m.Begin()
	}
	if w.pins[len(w.pins)-1].direct {
		record = record[:len(record)+int(fillerBehind(int64(len(record))))]
	}
	return w.mirror.Add(x, record, last)
}
