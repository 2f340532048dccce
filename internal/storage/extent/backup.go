package extent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
)

// WindowSize is the size of a [Window], in bytes.
const WindowSize = 4 << 20

// Window names the records of an extent that begin in a range of WindowSize bytes. Records are never changed and
// extents never take the id of another one, so that the same ranges of a window are the same bytes.
type Window struct {
	Extent uint64 `json:"extent"`
	// Number is the offset of the window divided by WindowSize.
	Number int64 `json:"window"`
}

// Content is the content of a [Window] in a backup.
type Content struct {
	Window
	Ranges []Range
	// Records are the records of the ranges, one after another. Nil if held was the answer.
	Records []byte
}

// Backup calls emit with the records that refs refer to, by window, in order. held returns the ranges of a window that
// the caller has already; if they have all that is referred to, the content has these ranges and no records. A record
// that this node does not have, or that is damaged, comes from another node of the cluster. The caller has called Hold
// before it read what it refers to.
func (s *Store) Backup(ctx context.Context, refs func(yield func(Ref) bool) error, held func(Window) []Range,
	emit func(Content) error) error {
	live := map[Window]*coverage{}
	var failed error
	err := refs(func(r Ref) bool {
		var from, to int64
		if from, to, failed = s.place(r.Slice); failed == nil {
			failed = ctx.Err()
		}
		w := Window{r.Slice.Extent, from / WindowSize}
		if live[w] == nil {
			live[w] = &coverage{}
		}
		live[w].add(from, to)
		return failed == nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return fmt.Errorf("extent: backup: %w", err)
	}
	windows := slices.SortedFunc(maps.Keys(live), func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Extent, b.Extent), cmp.Compare(a.Number, b.Number))
	})
	for _, w := range windows {
		c := Content{Window: w, Ranges: live[w].spans()}
		// What the backup has already is read neither from this disk nor from another node.
		if have := held(w); covers(have, c.Ranges) {
			c.Ranges = have
		} else if c.Records, err = s.records(w.Extent, c.Ranges); err != nil {
			return fmt.Errorf("extent: backup: %w", err)
		}
		if err := cmp.Or(ctx.Err(), emit(c)); err != nil {
			return err
		}
	}
	return nil
}

// place returns where the record is that contains x, header included.
func (s *Store) place(x Slice) (from, to int64, err error) {
	if x.CRC != 0 {
		return x.Offset - recordHeaderSize, x.Offset + x.Length, nil
	}
	if whole, err := s.wholeOf(x); err == nil && whole.Length > 0 {
		return whole.Offset - recordHeaderSize, whole.Offset + whole.Length, nil
	}
	from, record, err := s.recordFromAny(x)
	return from, from + int64(len(record)), err
}

// wholeOf returns the record of this node that contains x.
func (s *Store) wholeOf(x Slice) (Slice, error) {
	e, err := s.pinForReader(x.Extent)
	if err != nil {
		return Slice{}, err
	}
	defer e.readers.Add(-1)
	h, err := s.handles.acquire(e)
	if err != nil {
		return Slice{}, err
	}
	defer s.handles.release(h)
	return e.recordAt(h.src, x.Offset)
}

// records returns the records of some ranges, each intact.
func (s *Store) records(id uint64, ranges []Range) (data []byte, err error) {
	for _, r := range ranges {
		for at := r.From; at < r.To; {
			offset, record, err := s.recordFromAny(Slice{Extent: id, Offset: at + recordHeaderSize, Length: 1})
			if err == nil && (offset != at || at+int64(len(record)) > r.To) {
				err = fmt.Errorf("%w: extent %016x, offset %d: another record", ErrCorrupt, id, at)
			}
			if err != nil {
				return nil, err
			}
			data = append(data, record...)
			at += int64(len(record))
		}
	}
	return data, nil
}

// Restore writes a new folder, that of a single server, from the contents with which contents calls emit.
func Restore(dir string, o Options, contents func(emit func(Content) error) error) error {
	o.Mirrored = true
	to, err := Open(dir, o)
	if err != nil {
		return err
	}
	return to.finishExtract(contents(func(c Content) error { return c.Put(to.PutRecords) }))
}

// Put calls put with the records of each range.
func (c *Content) Put(put func(id uint64, at int64, records []byte) error) error {
	data := c.Records
	for _, r := range c.Ranges {
		n := r.To - r.From
		if n <= 0 || n > int64(len(data)) {
			return fmt.Errorf("%w: extent %016x: a window of %d bytes", ErrCorrupt, c.Extent, len(c.Records))
		}
		if err := put(c.Extent, r.From, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%w: extent %016x: %d bytes in no range", ErrCorrupt, c.Extent, len(data))
	}
	return nil
}
