package extent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// recoverAll finishes the extents that were being written when the process ended. It cuts their torn tails, and removes
// empty extents.
//
// A power failure may lose any part of the data that was not synced, so that intact records can follow torn ones.
// Content that the metadata refers to was synced before. So if the metadata refers to damaged content, bytes on disk
// have changed: Open then cuts nothing and fails.
func (s *Store) recoverAll(open []*extent) error {
	examined := make([]examination, len(open))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, e := range open {
		group.Go(func() (err error) {
			examined[i], err = e.examine()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// All extents are examined before any is changed: if metadata refers to a gap in one of them, Open must leave all as
	// they are, for a repair.
	if err := s.checkReferences(open, examined); err != nil {
		return err
	}
	for i, e := range open {
		group.Go(func() error { return e.recover(examined[i]) })
	}
	return group.Wait()
}

func (e *extent) examine() (examination, error) {
	f, err := os.Open(e.s.path(e.id, openSuffix))
	if err != nil {
		return examination{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return examination{}, err
	}
	return examine(f, e.id, info.Size(), nil)
}

// checkReferences asks the owner whether metadata refers to damaged content, if there is any.
func (s *Store) checkReferences(open []*extent, examined []examination) error {
	torn := map[uint64]*examination{}
	for i, e := range open {
		if len(examined[i].gaps) > 0 {
			torn[e.id] = &examined[i]
		}
	}
	// On a node of a cluster a damaged record is fetched from another node when it is read.
	if len(torn) == 0 || s.opts.Mirrored {
		return nil
	}
	// Without the owner's answer, only a gap before the last intact record is certainly not a torn tail.
	if s.opts.Refs == nil {
		for id, x := range torn {
			if x.gaps[0].end() <= x.end {
				return damagedExtent(s.path(id, openSuffix), x.gaps[0], 0)
			}
		}
		return nil
	}
	affected := map[uint64]int{}
	first := map[uint64]span{}
	err := s.opts.Refs(func(r Ref) bool {
		if x := torn[r.Slice.Extent]; x != nil && x.touches(r.Slice) {
			if affected[r.Slice.Extent]++; affected[r.Slice.Extent] == 1 {
				first[r.Slice.Extent] = span{uint32(r.Slice.Offset), uint32(r.Slice.Length)}
			}
		}
		return true
	})
	var damage []error
	for id, n := range affected {
		damage = append(damage, damagedExtent(s.path(id, openSuffix), first[id], n))
	}
	return errors.Join(append(damage, err)...)
}

func damagedExtent(path string, at span, refs int) error {
	return fmt.Errorf("%w: %s: %d bytes at offset %d are damaged, and content refers to %d damaged places; "+
		"run lazuli fsck to list the affected data, and lazuli fsck --repair to keep all intact data",
		ErrCorrupt, filepath.Base(path), at.length, at.offset, max(refs, 1))
}

// recover finishes an extent that was being written when the process ended.
func (e *extent) recover(x examination) error {
	fs, open := e.s.opts.FS, e.s.path(e.id, openSuffix)
	if x.end <= fileHeaderSize {
		e.finished = true // load removes it
		return nil
	}
	f, err := fs.OpenFile(open, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size != x.end {
		if err := f.Truncate(x.end); err != nil {
			return err
		}
		if l := e.s.opts.Logger; l != nil {
			l.Warn("an extent ended in unacknowledged content after a crash: it was truncated", "file",
				open, "bytes", size-x.end)
		}
	}
	// Before the rename: an extent with its final name is not walked again.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := fs.Rename(open, e.s.path(e.id, sealedSuffix)); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	e.size = x.end
	e.synced = x.end
	e.named = true
	e.finished = true
	return nil
}
