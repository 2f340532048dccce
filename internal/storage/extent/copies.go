package extent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Nodes of a cluster have copies of each other's extents. An extent is written by one node, its owner, and has the same
// id, records and offsets on all of them, so that a Slice means the same content everywhere. A copy may have holes,
// where the node has missed records, and damaged records; the checksums tell. Reading such a record fetches it from
// another node (heal).
//
// The upper bits of an id are the number of its owner, which identifies a data folder and is never used again:
//
//	id   owner (24 bits) | number of the extent (40 bits)
//
// Extents of a single machine have owner 0, which becomes the number of its folder if the folder becomes that of a
// node.
//
//	Put ──> <id>.copy: has holes; a new process reads it to learn where
//	           │  Complete: everything that the owner has, synced
//	           ▼
//	        <id>.extent: as an extent that this node has written
//	           │  Release: the owner has deleted it; Compact: no metadata refers to it
//	           ▼
//	        deleted

// Put writes a record of another node's extent, or replaces a damaged one, at an offset. SyncPuts makes it durable. It
// fails with ErrCorrupt if the record is not intact.
func (s *Store) Put(id uint64, offset int64, record []byte) error {
	if err := checkRecord(id, offset, record); err != nil {
		return err
	}
	e, err := s.pinForPut(id)
	if err != nil {
		return err
	}
	defer e.writers.Add(-1)
	return e.put(offset, record)
}

// PutLogged puts the record of a Logged of any node. What this process has written itself is in its place.
func (s *Store) PutLogged(key, value []byte) error {
	if len(key) != 16 {
		return fmt.Errorf("%w: a key of %d bytes", ErrCorrupt, len(key))
	}
	id, offset := binary.BigEndian.Uint64(key), int64(binary.BigEndian.Uint64(key[8:]))
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e != nil && e.begun {
		return nil
	}
	return s.Put(id, offset, value)
}

// checkRecord verifies a record with its header.
func checkRecord(id uint64, offset int64, record []byte) error {
	if len(record) > recordHeaderSize && offset >= fileHeaderSize {
		length, crc, ok := parseRecordHeader(record, id, offset)
		if ok && length == int64(len(record)-recordHeaderSize) &&
			crc == crc32c.Checksum(record[recordHeaderSize:]) {
			return nil
		}
	}
	return fmt.Errorf("%w: record of extent %016x at offset %d", ErrCorrupt, id, offset)
}

// CheckRecord verifies that a record of another node is intact and contains x.
func CheckRecord(x Slice, offset int64, record []byte) error {
	if err := checkRecord(x.Extent, offset, record); err != nil {
		return err
	}
	at, end := offset+recordHeaderSize, offset+int64(len(record))
	if x.Offset < at || x.Offset+x.Length > end || x.CRC != 0 && sliceOf(x.Extent, offset, record) != x {
		return fmt.Errorf("%w: another record of extent %016x", ErrCorrupt, x.Extent)
	}
	return nil
}

// RecordSize returns the size of a record, header included, by its header, which begins p; 0 if p is too short.
// CheckRecord verifies the header.
func RecordSize(p []byte) int64 {
	if len(p) < recordHeaderSize {
		return 0
	}
	return recordHeaderSize + int64(binary.LittleEndian.Uint32(p[4:]))
}

// RecordOf returns the offset of the record whose payload is x.
func RecordOf(x Slice) int64 { return x.Offset - recordHeaderSize }

// sliceOf returns the payload of a record with its header.
func sliceOf(id uint64, offset int64, record []byte) Slice {
	return Slice{Extent: id, Offset: offset + recordHeaderSize, Length: int64(len(record) - recordHeaderSize),
		CRC: binary.LittleEndian.Uint32(record[8:])}
}

// pinForPut returns the extent, which it creates if this node has no copy of it, and pins it.
func (s *Store) pinForPut(id uint64) (*extent, error) {
	pin := func() (*extent, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.closed {
			return nil, ErrClosed
		}
		e := s.extents[id]
		// Under s.mu, which Compact needs in order to delete the extent.
		if e != nil {
			e.writers.Add(1)
		}
		return e, nil
	}
	if e, err := pin(); e != nil || err != nil {
		return e, err
	}
	// Another goroutine may have created the copy since; the second look finds it.
	s.creating.Lock()
	defer s.creating.Unlock()
	if e, err := pin(); e != nil || err != nil {
		return e, err
	}
	return s.createCopy(id)
}

// createCopy creates an extent of another node, whose name is durable, and pins it. The caller holds s.creating.
func (s *Store) createCopy(id uint64) (*extent, error) {
	path := s.path(id, copySuffix)
	f, err := s.opts.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("extent: create a copy: %w", err)
	}
	_, err = f.WriteAt(fileHeader(id), 0)
	// SyncPuts syncs only the file. The name must be durable before the first record is acknowledged.
	if err == nil && s.durable() {
		if err = f.Sync(); err == nil {
			err = s.opts.FS.SyncDir(s.dir)
		}
	}
	if err != nil {
		err = errors.Join(err, f.Close(), s.opts.FS.Remove(path))
		return nil, fmt.Errorf("extent: create a copy: %w", err)
	}
	e := newExtent(s, id)
	// A new copy has nothing, which is known. A copy that an earlier process has made has a nil coverage until it is
	// read.
	e.file = f
	e.size = fileHeaderSize
	e.sealed = true
	e.partial = true
	e.coverage = &coverage{}
	e.writers.Add(1)
	s.mu.Lock()
	s.extents[id] = e
	delete(s.removed, id)
	s.mu.Unlock()
	return e, nil
}

// put writes a record.
func (e *extent) put(offset int64, record []byte) error {
	if len(record) > smallRead {
		defer e.startWriteback()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// What the tier has is whole. The record may be older than that, and arrive only now.
	if e.remote.Load() {
		return nil
	}
	// After a failed sync, what was put before may be lost, and a later sync would succeed without it.
	if e.err != nil {
		return e.err
	}
	if e.direct {
		return e.replaceDirect(offset, record)
	}
	if err := e.reopen(); err != nil {
		return err
	}
	if _, err := e.file.WriteAt(record, offset); err != nil {
		return fmt.Errorf("extent: put: %w", err)
	}
	if e.coverage != nil {
		e.coverage.add(offset, offset+int64(len(record)))
	}
	e.replaced(offset, record)
	e.puts++
	return nil
}

// replaceDirect replaces a record of an extent whose file takes aligned writes only. The caller holds e.mu.
func (e *extent) replaceDirect(offset int64, record []byte) error {
	// The record need not be aligned as it arrives, so it goes through a second, buffered handle. That one is synced
	// here, and syncPuts has nothing to do for it.
	f, err := e.s.opts.FS.OpenFile(e.path(), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("extent: put: %w", err)
	}
	_, err = f.WriteAt(record, offset)
	if err == nil && e.s.durable() {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("extent: put: %w", err)
	}
	e.replaced(offset, record)
	return nil
}

// replaced notes that a record was written at an offset. The caller holds e.mu.
func (e *extent) replaced(offset int64, record []byte) {
	if end := offset + int64(len(record)); end > e.size { // never if the extent takes appends, which read size without mu
		e.size = end
	}
	if offset < e.index.end {
		e.index = index{} // it may have passed over the record
	}
}

// reopen opens the file for writing. The caller holds e.mu.
func (e *extent) reopen() (err error) {
	if e.file == nil {
		if e.file, err = e.s.opts.FS.OpenFile(e.path(), os.O_RDWR, 0); err != nil {
			err = fmt.Errorf("extent: put: %w", err)
			e.file = nil
		}
	}
	return err
}

// SyncPuts returns when everything is on disk that was put into an extent before the call.
func (s *Store) SyncPuts(id uint64) error {
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e == nil {
		return fmt.Errorf("%w: %x", ErrNotFound, id)
	}
	return e.syncPuts()
}

// syncPuts is SyncPuts. Concurrent callers share syncs.
func (e *extent) syncPuts() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Puts are counted, not measured as in syncTo: they go to any place of the file, so its size says nothing. The
	// target is fixed, since a caller must not wait for what others put after its call.
	for target := e.puts; e.putsSynced < target; {
		switch {
		case e.err != nil:
			return e.err
		case e.syncing:
			e.changed.Wait()
		case e.file == nil:
			return ErrClosed
		default:
			e.syncing = true
			puts, f := e.puts, e.file
			e.mu.Unlock()
			var err error
			if e.s.durable() {
				err = f.Sync()
			}
			e.mu.Lock()
			e.syncing = false
			if err != nil {
				e.err = fmt.Errorf("extent: sync: %w", err)
			} else {
				e.putsSynced = puts
			}
			e.changed.Broadcast()
		}
	}
	e.closeIdle()
	return nil
}

// closeIdle closes the file of a finished extent after a put. The caller holds e.mu.
func (e *extent) closeIdle() {
	if e.finished && e.file != nil && !e.s.opts.Ephemeral && !e.syncing && e.putsSynced == e.puts {
		_ = e.file.Close() // synced
		e.file = nil
	}
}

// SyncAllPuts makes everything durable that was put into any extent before the call.
func (s *Store) SyncAllPuts() error {
	s.mu.RLock()
	var dirty []*extent
	for _, e := range s.extents {
		e.mu.Lock()
		if e.puts > e.putsSynced {
			dirty = append(dirty, e)
		}
		e.mu.Unlock()
	}
	s.mu.RUnlock()
	var errs []error
	for _, e := range dirty {
		errs = append(errs, e.syncPuts())
	}
	return errors.Join(errs...)
}

// Record returns the record that contains x, with its offset, for another node. It fails with ErrNotFound or ErrCorrupt
// if this node does not have it.
func (s *Store) Record(x Slice) (offset int64, record []byte, err error) {
	e, err := s.pinForReader(x.Extent)
	if err != nil {
		return 0, nil, err
	}
	defer e.readers.Add(-1)
	if err := e.contains(x); err != nil {
		return 0, nil, err
	}
	h, err := s.handles.acquire(e)
	if err != nil {
		return 0, nil, err
	}
	defer s.handles.release(h)
	whole := x
	// A slice without a checksum may be a part of a record. The other node verifies and stores whole records.
	if x.CRC == 0 {
		if whole, err = e.recordAt(h.src, x.Offset); err != nil {
			return 0, nil, err
		}
		if whole.Length == 0 || whole.Offset+whole.Length < x.Offset+x.Length {
			return 0, nil, fmt.Errorf("%w: extent %016x, offset %d: no record", ErrCorrupt, x.Extent, x.Offset)
		}
	}
	offset = whole.Offset - recordHeaderSize
	record = make([]byte, recordHeaderSize+whole.Length)
	if n, err := h.src.ReadAt(record, offset); n < len(record) {
		if errors.Is(err, ErrAway) {
			return 0, nil, err
		}
		return 0, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return offset, record, checkRecord(x.Extent, offset, record)
}

// Records returns intact records of an extent without gaps, from the first one at or after offset on: at least one, and
// no more than limit bytes unless that is larger. at is the offset of the first. data is empty if there is no further
// one.
func (s *Store) Records(id uint64, offset int64, limit int) (at int64, data []byte, err error) {
	e, err := s.pinForReader(id)
	if err != nil {
		return 0, nil, err
	}
	defer e.readers.Add(-1)
	h, err := s.handles.acquire(e)
	if err != nil {
		return 0, nil, err
	}
	defer s.handles.release(h)
	e.mu.Lock()
	size := e.size
	e.mu.Unlock()
	b := newBuffer(MaxRecord)
	defer b.free()
	in := &window{f: h.src, buf: b.bytes}
	// The first loop passes over gaps and damage to the first intact record, the second one takes those that follow it.
	for at = max(offset, fileHeaderSize); at < size; {
		r, err := in.record(id, at)
		if err != nil {
			return 0, nil, err
		}
		if r.Length > 0 {
			break
		}
		if at, err = in.nextRecord(id, at, size); err != nil {
			return 0, nil, err
		}
	}
	for end := at; end < size; {
		r, err := in.record(id, end)
		if err != nil || r.Length == 0 || len(data) > 0 && len(data)+recordHeaderSize+int(r.Length) > limit {
			return at, data, err
		}
		p, err := in.bytes(end, recordHeaderSize+r.Length)
		if err != nil {
			return at, data, err
		}
		data = append(data, p...)
		end += recordHeaderSize + r.Length
	}
	return at, data, nil
}

// PutRecords puts records that [Store.Records] of another node has returned.
func (s *Store) PutRecords(id uint64, at int64, data []byte) error {
	for len(data) > 0 {
		if len(data) < recordHeaderSize {
			return fmt.Errorf("%w: extent %016x, offset %d: part of a record", ErrCorrupt, id, at)
		}
		length, _, ok := parseRecordHeader(data, id, at)
		n := recordHeaderSize + length
		if !ok || n > int64(len(data)) {
			return fmt.Errorf("%w: extent %016x, offset %d", ErrCorrupt, id, at)
		}
		if err := s.Put(id, at, data[:n]); err != nil {
			return err
		}
		at, data = at+n, data[n:]
	}
	return nil
}

// Missing returns the first range of an extent, from an offset on and before size, that this node does not have. n is 0
// if it has everything. A copy that an earlier process has made is read for that once.
func (s *Store) Missing(id uint64, from, size int64) (at, n int64, err error) {
	if from = max(from, fileHeaderSize); from >= size {
		return 0, 0, nil
	}
	err = s.covered(id, func(c *coverage) { at, n = c.gap(from, size) })
	return at, n, err
}

// Lacking returns how many bytes before size this node does not have of an extent: all of them if its copy cannot be
// read. A copy that an earlier process has made is read for that once.
func (s *Store) Lacking(id uint64, size int64) (n int64) {
	if err := s.covered(id, func(c *coverage) { n = c.lacking(fileHeaderSize, size) }); err != nil {
		return max(size-fileHeaderSize, 0)
	}
	return n
}

// covered calls f with the ranges that this node has of an extent, which f must not keep. It does not call f if this
// node has, or had, the whole extent.
func (s *Store) covered(id uint64, f func(*coverage)) error {
	s.mu.RLock()
	e, removed := s.extents[id], s.removed[id]
	if e != nil {
		// The pin keeps Compact from deleting the file while cover reads it.
		e.readers.Add(1)
		defer e.readers.Add(-1)
	}
	s.mu.RUnlock()
	switch {
	case removed:
		return nil
	case e == nil:
		f(&coverage{})
		return nil
	case e.inTier():
		return nil
	}
	if err := e.cover(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// It may have become complete while it was read.
	if e.partial {
		f(e.coverage)
	}
	return nil
}

// cover reads a partial extent to learn which records this node has.
func (e *extent) cover() error {
	e.mu.Lock()
	known, size := !e.partial || e.coverage != nil, e.size
	e.mu.Unlock()
	if known {
		return nil
	}
	h, err := e.s.handles.acquire(e)
	if err != nil {
		return err
	}
	defer e.s.handles.release(h)
	found := &coverage{}
	if _, err := examine(h.file, e.id, size, func(x Slice) error {
		found.add(x.Offset-recordHeaderSize, x.Offset+x.Length)
		return nil
	}); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.coverage == nil { // what was put meanwhile is fetched again
		e.coverage = found
	}
	return nil
}

// Void notes that a range of an extent has no content on the node that wrote it, so that it is no longer missing.
func (s *Store) Void(id uint64, at, n int64) {
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.coverage != nil {
			e.coverage.add(at, at+n)
		}
	}
}

// Complete gives a copy its final name if this node has everything up to size, which is the final size of the extent.
func (s *Store) Complete(id uint64, size int64) (complete bool, err error) {
	if _, n, err := s.Missing(id, 0, size); err != nil || n > 0 {
		return false, err
	}
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e == nil || !e.isPartial() || e.inTier() { // a copy with holes of what the tier has keeps its name, and goes soon
		return e != nil, nil
	}
	// The final name says that everything is here and on disk: a later process does not read the file to verify that. So
	// the sync comes first.
	if err := e.syncPuts(); err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.syncing {
		e.changed.Wait()
	}
	// Another call may have completed the copy, or more was put, while the lock was free. Then the next round tries
	// again.
	if !e.partial || e.sum != "" || e.putsSynced < e.puts {
		return !e.partial, e.err
	}
	from := e.path()
	if err := s.opts.FS.Rename(from, s.path(id, sealedSuffix)); err != nil {
		return false, fmt.Errorf("extent: complete a copy: %w", err)
	}
	e.partial = false
	e.named = true
	e.finished = true
	e.coverage = nil
	e.synced = e.size
	e.closeIdle()
	return true, nil
}

// Release notes that the node that wrote an extent has deleted it: Compact deletes it once no metadata refers to it.
func (s *Store) Release(id uint64) (changed bool) {
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	if e == nil || s.owns(id) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = !e.released
	e.released = true
	if changed {
		s.releases.Add(1)
	}
	return changed
}

// Reconsider notes that another node has deleted its copy of an extent whose owner is gone: nothing refers to it.
func (s *Store) Reconsider() { s.releases.Add(1) }

// Releases returns the number of calls of Release and Reconsider that told something new. It has risen when Compact may
// find something to delete.
func (s *Store) Releases() int64 { return s.releases.Load() }
