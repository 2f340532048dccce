package extent

import "io"

// Walk calls fn with a slice of the payload of every intact record of an extent, in order. It returns the number of
// intact bytes of the file, headers included, and of damaged bytes: damaged records, or the torn tail of an extent that
// was being written. It reads and checks the whole file, and continues after damage.
//
// An error means that the extent could not be walked, or that fn failed, which ends the walk.
func (s *Store) Walk(id uint64, fn func(Slice) error) (intact, damaged int64, err error) {
	e, err := s.pinForReader(id)
	if err != nil {
		return 0, 0, err
	}
	defer e.readers.Add(-1)
	h, err := s.handles.acquire(e)
	if err != nil {
		return 0, 0, err
	}
	defer s.handles.release(h)
	if h.file == nil {
		x, err := examine(h.src, id, e.size, fn)
		return e.size - x.damaged(), x.damaged(), err
	}
	size, err := h.file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	in, size := s.opts.Restored.patch(e, h.file, size)
	x, err := examine(in, id, size, fn)
	return size - x.damaged(), x.damaged(), err
}
