package extent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Local opens the file of a finished extent, and keeps the extent until done is called. Errors: ErrNotFound, also for
// an extent without a file.
func (s *Store) Local(id uint64) (f *os.File, size int64, done func() error, err error) {
	e, err := s.pinForReader(id)
	if err != nil {
		return nil, 0, nil, err
	}
	e.mu.Lock()
	size, finished := e.size, e.finished && e.named && !e.partial
	e.mu.Unlock()
	if finished {
		f, err = e.open()
	}
	if err == nil && f == nil {
		err = fmt.Errorf("%w: %x has no finished file", ErrNotFound, id)
	}
	if err != nil {
		e.readers.Add(-1)
		return nil, 0, nil, err
	}
	return f, size, func() error { defer e.readers.Add(-1); return f.Close() }, nil
}

// SetRemote notes durably that the tier has an extent, whole, in an object with that checksum. The caller has compared
// the object with the file, and holds the extent by Local.
func (s *Store) SetRemote(id uint64, sum string) error {
	e, err := s.pinForReader(id)
	if err != nil {
		return err
	}
	defer e.readers.Add(-1)
	e.listing.Lock()
	defer e.listing.Unlock()
	e.mu.Lock()
	x, ok := listed{Size: e.size, Sum: sum}, e.finished && e.named && !e.partial
	e.mu.Unlock()
	if !ok || s.manifest == nil {
		return fmt.Errorf("%w: %x is not finished", ErrNotFound, id)
	}
	if err := s.manifest.finished(id, x); err != nil {
		return err
	}
	e.mu.Lock()
	e.sum = sum
	e.mu.Unlock()
	return nil
}

// Tiered notes, on a node of a cluster, that the tier has an extent, whole, with a size, in an object with that
// checksum: the log of the cluster keeps that in place of a manifest. An extent without a file is only in the tier from
// then on.
func (s *Store) Tiered(id uint64, size int64, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.removed[id] {
		return
	}
	if e := s.extents[id]; e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sum, e.stored = sum, size
		if e.remote.Load() {
			e.size, e.synced = size, size
		}
		return
	}
	e := newExtent(s, id)
	e.named, e.sealed, e.finished = true, true, true
	e.size, e.synced, e.stored, e.sum = size, size, size, sum
	e.remote.Store(true)
	e.lastUse.Store(s.now().UnixNano())
	s.extents[id] = e
}

// Removed reports whether Compact of this process has deleted an extent. It is for a node of a cluster.
func (s *Store) Removed(id uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.removed[id]
}

// inTier reports whether the tier has the extent.
func (e *extent) inTier() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sum != ""
}

// dropCopy is Drop on a node of a cluster. A copy with holes becomes whole by it. A reader or a writer of such a copy
// holds its file, so it does nothing while there is one.
func (s *Store) dropCopy(e *extent) (dropped bool, err error) {
	s.mu.Lock()
	e.mu.Lock()
	if e.sum == "" || e.remote.Load() || e.syncing || e.readers.Load() > 0 || e.writers.Load() > 0 {
		e.mu.Unlock()
		s.mu.Unlock()
		return false, nil
	}
	path, file := e.path(), e.file
	e.file, e.partial, e.coverage, e.index = nil, false, nil, index{}
	e.named, e.sealed, e.finished = true, true, true
	e.size, e.synced, e.putsSynced = e.stored, e.stored, e.puts
	e.remote.Store(true)
	e.mu.Unlock()
	s.mu.Unlock()
	s.handles.forget(e)
	if file != nil {
		err = file.Close()
	}
	if failed := s.opts.FS.Remove(path); !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, failed)
	}
	return true, err
}

// FixFile replaces what is damaged in the file of a finished extent, and referred to, by what other nodes have: once
// the tier has the file as it is, they may drop theirs. Errors: ErrCorrupt if some of it is nowhere.
func (s *Store) FixFile(id uint64, refs func(yield func(Ref) bool) error) error {
	for again := range 2 {
		lost, err := s.lost(id, refs)
		if err != nil || len(lost) == 0 {
			return err
		}
		if again > 0 {
			return fmt.Errorf("%w: extent %016x: %d slices are damaged", ErrCorrupt, id, len(lost))
		}
		for _, x := range lost {
			if err := s.heal(x); err != nil {
				return err
			}
		}
		if err := s.SyncPuts(id); err != nil {
			return err
		}
	}
	return nil
}

// lost returns the slices whose records are not intact in the file of an extent.
func (s *Store) lost(id uint64, refs func(yield func(Ref) bool) error) (lost []Slice, err error) {
	f, size, done, err := s.Local(id)
	if err != nil {
		return nil, err
	}
	x, err := examine(f, id, size, nil)
	if err = errors.Join(err, done()); err != nil || len(x.gaps) == 0 {
		return nil, err
	}
	err = refs(func(r Ref) bool {
		if r.Slice.Extent == id && x.touches(r.Slice) {
			lost = append(lost, r.Slice)
		}
		return true
	})
	return lost, err
}

// list lists a finished extent as it is.
func (e *extent) list() error {
	e.listing.Lock()
	defer e.listing.Unlock()
	e.mu.Lock()
	x := listed{Size: e.size, Sum: e.sum}
	e.mu.Unlock()
	return e.s.manifest.finished(e.id, x)
}

// Drop removes the file of an extent that is in the tier. Readers that have it open go on with it. It reports whether
// there was a file.
func (s *Store) Drop(id uint64) (dropped bool, err error) {
	s.mu.RLock()
	e, closed := s.extents[id], s.closed
	s.mu.RUnlock()
	// Close lets the manifest wait, so that what SetRemote noted then may not be on disk yet.
	if closed || e == nil {
		return false, nil
	}
	if s.opts.Mirrored {
		return s.dropCopy(e)
	}
	e.mu.Lock()
	if e.sum == "" || e.remote.Load() {
		e.mu.Unlock()
		return false, nil
	}
	path := e.path()
	e.remote.Store(true)
	e.index = index{}
	err = s.opts.FS.Remove(path)
	e.mu.Unlock()
	s.handles.forget(e)
	if errors.Is(err, fs.ErrNotExist) { // Compact has removed it
		err = nil
	}
	return true, err
}
