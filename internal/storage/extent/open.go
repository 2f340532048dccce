package extent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Open opens the folder dir, or creates it, and repairs extents that a crash left unfinished.
func Open(dir string, o Options) (*Store, error) {
	if o.SealSize == 0 {
		o.SealSize = 256 << 20
	}
	o.SealSize = min(o.SealSize, 1<<30)
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.Recheck == 0 {
		o.Recheck = time.Hour
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	s := &Store{dir: dir, opts: o, extents: map[uint64]*extent{}, now: time.Now}
	s.small, s.moved = &lane{s: s}, &lane{s: s}
	for range bulkLanes {
		s.bulk = append(s.bulk, &lane{s: s, direct: canDirect && s.durable()})
	}
	if !o.ReadOnly {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("extent: open: %w", err)
		}
	}
	if err := s.load(); err != nil {
		s.closeFiles()
		return nil, fmt.Errorf("extent: open %s: %w", dir, err)
	}
	return s, nil
}

// load registers the extents in the folder and recovers unfinished ones.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	if !s.opts.Ephemeral && !s.opts.ReadOnly && !s.opts.Mirrored {
		if s.manifest, err = s.openManifest(); err != nil {
			return err
		}
	}
	var open []*extent
	s.removed = map[uint64]bool{}
	// Ids must not be used twice, even if the newest extent was deleted. So they start from the clock.
	s.nextID = uint64(time.Now().Unix())
	for _, entry := range entries {
		id, suffix, ok := parseName(entry.Name())
		if !ok {
			continue // fsck reports unknown files
		}
		if s.opts.Ephemeral {
			if err := s.opts.FS.Remove(s.path(id, suffix)); err != nil {
				return err
			}
			continue
		}
		if s.extents[id] != nil {
			return fmt.Errorf("extent %x exists both finished and unfinished", id)
		}
		if OwnerOf(id) == 0 { // others were written by nodes of a cluster
			s.nextID = max(s.nextID, id+1)
		}
		e := newExtent(s, id)
		e.partial = suffix == copySuffix
		e.named, e.sealed, e.finished = suffix == sealedSuffix, true, suffix == sealedSuffix || s.opts.ReadOnly
		if suffix == openSuffix && !s.opts.ReadOnly {
			open = append(open, e)
		} else {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			e.size, e.synced = info.Size(), info.Size()
		}
		if s.opts.Tier != nil {
			e.lastUse.Store(s.now().UnixNano())
		}
		s.extents[id] = e
	}
	if err := s.loadRemote(); err != nil {
		return err
	}
	if err := s.recoverAll(open); err != nil {
		return err
	}
	var empty []*extent
	for id, e := range s.extents {
		if e.finished && e.size == 0 && slices.Contains(open, e) {
			empty = append(empty, e)
			delete(s.extents, id)
		}
	}
	if s.manifest == nil {
		return s.removeEmpty(empty)
	}
	list := map[string]listed{}
	for id, e := range s.extents {
		if !e.partial {
			list[idText(id)] = listed{Size: e.size, Finished: true, Sum: e.sum}
		}
	}
	if err := s.manifest.replace(list); err != nil {
		return err
	}
	return s.removeEmpty(empty)
}

// removeEmpty removes the files of extents that a crash left without content.
func (s *Store) removeEmpty(empty []*extent) error {
	for _, e := range empty {
		if err := s.opts.FS.Remove(s.path(e.id, openSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// loadRemote registers the extents that the manifest has in the tier.
func (s *Store) loadRemote() error {
	var list listing
	switch {
	case s.manifest != nil:
		list = s.manifest.list
	case (s.opts.ReadOnly || s.opts.Mirrored) && !s.opts.Ephemeral:
		// The folder of a server that became that of a node still has its list.
		_ = sumfile.Read(filepath.Join(s.dir, ManifestFile), manifestKind, manifestVersion, &list) // fsck reports damage
	}
	s.folder = list.ID
	for text, x := range list.Extents {
		id, _, ok := parseName(text + sealedSuffix)
		if !ok || x.Sum == "" {
			continue
		}
		e := s.extents[id]
		if s.opts.Mirrored {
			// These objects were those of a single server: the nodes have others, which their log knows.
			if e == nil && !s.opts.ReadOnly {
				return ErrAloneTier
			}
			continue
		}
		if e == nil {
			if s.opts.Tier == nil && !s.opts.ReadOnly {
				return ErrNoTier
			}
			e = newExtent(s, id)
			e.named, e.sealed, e.finished = true, true, true
			e.size, e.synced = x.Size, x.Size
			e.remote.Store(true)
			s.extents[id] = e
			if OwnerOf(id) == 0 {
				s.nextID = max(s.nextID, id+1)
			}
		}
		// A file of another size is not what the tier has.
		if e.size == x.Size && e.finished {
			e.sum = x.Sum
		}
	}
	return nil
}

// openManifest compares the files with the manifest, and returns the manifest with all of them.
func (s *Store) openManifest() (*manifest, error) {
	list, problems, err := verify(s.dir)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &ProblemsError{problems}
	}
	m := &manifest{fs: s.opts.FS, dir: s.dir, durable: s.durable(), list: list, slots: map[uint64]int{}}
	if m.list.ID == "" {
		m.list = listing{ID: newFolderID(), Extents: map[string]listed{}}
	}
	return m, nil
}

// Close finishes the extents being written and closes all files. Writers and Readers must be closed before; open ones
// fail.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()

	s.manifest.hold()
	for _, l := range s.lanes() {
		l.mu.Lock()
		l.seal()
		l.closed = true
		l.mu.Unlock()
	}
	s.sealing.Wait()
	err := s.closeFiles()
	if err == nil {
		return s.manifest.close()
	}
	return err
}

func (s *Store) closeFiles() error {
	s.handles.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, e := range s.extents {
		e.mu.Lock()
		if e.file != nil {
			errs = append(errs, e.file.Close())
			e.file = nil
		}
		switch {
		case e.err != nil:
			errs = append(errs, e.err)
		case e.unnamed:
			if err := e.rename(); err != nil {
				errs = append(errs, err)
			} else {
				errs = append(errs, s.manifest.finished(e.id, listed{Size: e.size}))
			}
		}
		if s.opts.Ephemeral && e.named {
			errs = append(errs, s.opts.FS.Remove(s.path(e.id, openSuffix)))
		}
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}
