package extent

import (
	"errors"
	"fmt"
	"runtime"
)

// append writes record, whose payload has that CRC, and pins the extent for w.
func (l *lane) append(w *Writer, record []byte, crc uint32) (Slice, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.target()
	if err != nil {
		return Slice{}, err
	}
	// The pin comes before the write. Until the writer is closed, Compact does not take the record for dead content.
	w.pin(e)
	offset := e.size // only appends change it, and they hold l.mu
	putRecordHeader(record, crc, e.id, offset)
	written := record
	// A direct file takes whole blocks only, so filler completes the record to the next one.
	if e.direct {
		written = addFiller(record[:cap(record)], len(record), e.id, offset)
	}
	if _, err := e.file.WriteAt(written, offset); err != nil {
		// Remove the partial record. If that fails, the record is the torn tail of an extent that takes no more.
		if e.file.Truncate(offset) != nil {
			e.mu.Lock()
			e.torn = true
			e.mu.Unlock()
			l.seal()
		}
		return Slice{}, fmt.Errorf("extent: append: %w", err)
	}
	e.mu.Lock()
	e.size = offset + int64(len(written))
	e.mu.Unlock()
	if l != l.s.small && !l.s.opts.Ephemeral && !e.direct {
		e.startWriteback()
	}
	return Slice{e.id, offset + recordHeaderSize, int64(len(record) - recordHeaderSize), crc}, nil
}

// target returns the extent to append to. The caller must hold l.mu.
func (l *lane) target() (*extent, error) {
	if l.closed {
		return nil, ErrClosed
	}
	if e := l.active; e != nil {
		e.mu.Lock()
		// After a failed sync it is unknown what the file holds, so nothing is added to it.
		usable := e.err == nil && !e.ended && e.size < l.s.opts.SealSize
		e.mu.Unlock()
		if usable {
			return e, nil
		}
		l.seal()
	}
	e, err := l.s.create(l.direct)
	if err != nil {
		return nil, err
	}
	l.active = e
	return e, nil
}

// End lets no further record be appended to an extent, which the mirror cannot copy.
func (s *Store) End(id uint64) {
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e != nil {
		e.mu.Lock()
		e.ended = true
		e.mu.Unlock()
	}
}

// seal ends the active extent. The caller must hold l.mu. Syncing and renaming happen in the background, until done is
// closed; it is nil if there is no active extent.
func (l *lane) seal() (done <-chan struct{}) {
	e := l.active
	if e == nil {
		return nil
	}
	l.active = nil
	e.mu.Lock()
	e.sealed = true
	e.mu.Unlock()
	finished := make(chan struct{})
	l.s.sealing.Go(func() { defer close(finished); e.finish() })
	return finished
}

// create creates an extent whose name is durable. It is written directly if direct is set and the file system can do
// that.
func (s *Store) create(direct bool) (*extent, error) {
	if s.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	s.mu.Lock()
	id := s.nextID
	s.nextID++
	s.mu.Unlock()

	path := s.path(id, openSuffix)
	f, size, direct, err := s.begin(path, id, direct)
	if err != nil {
		return nil, err
	}
	// The name is durable before the manifest lists the extent. In the other order, a power failure could leave a listed
	// extent without a file, which Open takes for a loss.
	if s.durable() {
		if err = f.Sync(); err == nil {
			err = s.opts.FS.SyncDir(s.dir)
		}
	}
	if err != nil {
		err = errors.Join(err, f.Close(), s.opts.FS.Remove(path))
		return nil, fmt.Errorf("extent: create: %w", err)
	}
	// The manifest has the extent before any record is acknowledged, so that a file that vanishes later is missed.
	if err := s.manifest.created(id, size); err != nil {
		err = errors.Join(err, f.Close(), s.opts.FS.Remove(path))
		return nil, fmt.Errorf("extent: create: %w", err)
	}
	e := newExtent(s, id)
	e.begun = true
	e.file = f
	e.direct = direct
	e.size = size
	e.synced = size
	e.written = size
	if s.opts.Ephemeral {
		// An ephemeral file loses its name at once, so that the system frees it when the process ends in whatever way.
		e.named = !canReopen || s.opts.FS.Remove(path) != nil
	}
	s.mu.Lock()
	s.extents[id] = e
	s.mu.Unlock()
	return e, nil
}

// finish makes a sealed extent durable and gives it its final name.
func (e *extent) finish() {
	if e.s.opts.Ephemeral {
		e.mu.Lock()
		e.finished = true
		e.mu.Unlock()
		return
	}
	e.mu.Lock()
	size := e.size
	e.mu.Unlock()
	if e.syncTo(size) != nil {
		return // the name tells Open to walk the extent
	}
	e.mu.Lock()
	for e.syncing { // see syncPuts
		e.changed.Wait()
	}
	finished := !e.torn && e.rename() == nil // otherwise Close tries again
	if finished {
		e.finished = true
		e.closeIdle() // a record that was replaced since the sync awaits syncPuts
	}
	e.mu.Unlock()
	if finished {
		_ = e.list() // otherwise the manifest has the size up to which it was synced
		if t := e.s.opts.Tier; t != nil {
			e.lastUse.Store(e.s.now().UnixNano())
			t.Sealed()
		}
	}
}

// rename gives a sealed and synced extent its final name. A lost rename does no harm: the next Open walks the extent.
// The caller must hold mu.
func (e *extent) rename() error {
	err := e.s.opts.FS.Rename(e.s.path(e.id, openSuffix), e.s.path(e.id, sealedSuffix))
	e.named, e.unnamed = err == nil, err != nil
	return err
}

// syncTo returns when the first end bytes are on disk. One sync covers all bytes that were appended before it began.
func (e *extent) syncTo(end int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.synced < end {
		switch {
		case e.err != nil:
			return e.err
		case e.syncing:
			e.changed.Wait()
		case e.file == nil:
			return ErrClosed
		default:
			e.syncing = true
			e.mu.Unlock()
			runtime.Gosched() // lets writers that woke at the same time join this sync
			e.mu.Lock()
			// The sync covers what was appended before it began. What is appended meanwhile waits for the next one.
			target, f := e.size, e.file
			e.mu.Unlock()
			err := f.Sync()
			e.mu.Lock()
			e.syncing = false
			if err != nil {
				// The kernel reports the error once, then marks the pages as clean. The extent takes no more appends.
				e.err = fmt.Errorf("extent: sync: %w", err)
			} else {
				e.synced = target
				e.s.manifest.synced(e.id, target)
			}
			e.changed.Broadcast()
		}
	}
	return nil
}

// writebackStep is the number of bytes that a bulk extent gathers before it starts writeback.
const writebackStep = 8 << 20

// startWriteback asks the kernel to write early, so that the sync has little left to do.
func (e *extent) startWriteback() {
	e.mu.Lock()
	from, n := e.written, e.size-e.written
	if n < writebackStep || e.file == nil {
		e.mu.Unlock()
		return
	}
	e.written = e.size
	f := e.file
	e.mu.Unlock()
	writeback(f.OS(), from, n)
}
