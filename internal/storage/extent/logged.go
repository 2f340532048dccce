package extent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Small content can become durable with the owner's log instead of by a sync of its extent. CommitLogged appends it to
// an extent as usual and returns the record as a Logged. The owner puts that into its log together with the metadata,
// so that one sync covers both. SyncLogged later syncs the extents, for many contents at once; only then the log may
// drop them. After a crash, a Restorer writes the records of the log to their places before Open, so that Open finds
// what the metadata refers to.
//
// An extent gets its final name after it was synced. So a record of the log whose extent is finished, or no longer
// exists because all of its content was dead, need not be restored.

// A Logged is a record for the owner's log. Key and Value are parts of the Writer's memory, valid until its Close.
type Logged struct {
	Key   []byte // the extent's id and the record's offset, 8 bytes each, big-endian
	Value []byte // the record with its header
}

// CommitLogged is Commit for content that the owner's log may make durable. If ok, the content is not yet durable: the
// owner MUST make l durable in its log, in one step with the metadata that refers to the slices, and MUST keep it there
// until a later SyncLogged has succeeded. Otherwise CommitLogged has done what Commit does. Content of up to
// Options.Logged bytes, if it is not empty, goes to the log.
func (w *Writer) CommitLogged() (slices []Slice, l Logged, ok bool, err error) {
	if w.err != nil || w.done || w.n == 0 || len(w.slices) > 0 || int64(w.n) > w.s.opts.Logged || !w.s.durable() {
		slices, err = w.Commit()
		return slices, l, false, err
	}
	buf, n := w.buf, recordHeaderSize+w.n
	w.hint = int64(w.n) // small, whatever was expected
	// The record is not sent to the mirror: other nodes receive it with the log of the metadata.
	w.keep = true
	if w.err = w.flush(true); w.err != nil {
		return nil, l, false, w.err
	}
	w.done = true
	x, e := w.slices[0], w.pins[0]
	// Before the record gets to the log: a SyncLogged that runs between must not miss it.
	w.s.noteLogged(e, x.Offset+x.Length)
	e.startWriteback()
	l.Key = binary.BigEndian.AppendUint64(make([]byte, 0, 16), x.Extent)
	l.Key = binary.BigEndian.AppendUint64(l.Key, uint64(x.Offset-recordHeaderSize))
	l.Value = buf.bytes[:n]
	return w.slices, l, true, nil
}

// noteLogged notes that an extent has content up to an offset that is in the owner's log.
func (s *Store) noteLogged(e *extent, end int64) {
	s.loggedMu.Lock()
	defer s.loggedMu.Unlock()
	if s.logged == nil {
		s.logged = map[*extent]int64{}
	}
	s.logged[e] = max(s.logged[e], end)
}

// SyncLogged makes everything durable that CommitLogged has left to the owner's log. After an error, the log must keep
// it: the content can be restored from there when the store is opened again.
func (s *Store) SyncLogged() error {
	s.loggedMu.Lock()
	due := s.logged
	// New content is noted in another map from here on, so that it does not delay this call.
	s.logged = nil
	s.loggedMu.Unlock()
	var errs []error
	for e, end := range due {
		if err := e.syncTo(end); err != nil {
			errs = append(errs, err)
			// It stays due: the log may drop it only after a call that has synced it.
			s.noteLogged(e, end)
		}
	}
	return errors.Join(errs...)
}

// A Restorer takes the records that the owner's log has, before Open. It writes them to the extents of a folder that
// were not finished, or keeps them in memory for a Store that is opened with Options.ReadOnly.
type Restorer struct {
	dir      string
	fs       disk.FS
	readOnly bool
	files    map[uint64]disk.File // nil for an extent that needs nothing
	records  map[uint64][]restored
}

type restored struct {
	offset int64
	record []byte
}

// NewRestorer returns a Restorer for a folder of extents, which need not exist. A nil fsys means disk.OS. With
// readOnly, it writes nothing, and keeps what it receives for Options.Restored.
func NewRestorer(dir string, fsys disk.FS, readOnly bool) *Restorer {
	if fsys == nil {
		fsys = disk.OS
	}
	return &Restorer{dir: dir, fs: fsys, readOnly: readOnly, files: map[uint64]disk.File{},
		records: map[uint64][]restored{}}
}

// Restore takes the Key and Value of a Logged. It ignores damaged ones: if the metadata refers to them, Open reports
// that.
func (r *Restorer) Restore(key, value []byte) error {
	if len(key) != 16 || len(value) <= recordHeaderSize {
		return nil
	}
	id, offset := binary.BigEndian.Uint64(key), int64(binary.BigEndian.Uint64(key[8:]))
	length, crc, ok := parseRecordHeader(value, id, offset)
	if !ok || length != int64(len(value)-recordHeaderSize) || crc32c.Checksum(value[recordHeaderSize:]) != crc {
		return nil
	}
	if r.readOnly {
		r.records[id] = append(r.records[id], restored{offset, value})
		return nil
	}
	f, known := r.files[id]
	if !known {
		var err error
		// An extent with its final name was synced before it got it, and one without a file was dead: both need nothing.
		path := (&Store{dir: r.dir}).path(id, openSuffix)
		if f, err = r.fs.OpenFile(path, os.O_RDWR, 0); errors.Is(err, fs.ErrNotExist) {
			f = nil
		} else if err != nil {
			return fmt.Errorf("extent: restore: %w", err)
		}
		r.files[id] = f
	}
	if f == nil {
		return nil
	}
	if _, err := f.WriteAt(value, offset); err != nil {
		return fmt.Errorf("extent: restore: %w", err)
	}
	return nil
}

// Sync makes what was restored durable, and closes the files.
func (r *Restorer) Sync() error {
	var errs []error
	for id, f := range r.files {
		if f != nil {
			errs = append(errs, f.Sync(), f.Close())
		}
		delete(r.files, id)
	}
	return errors.Join(errs...)
}

// file returns the content of an extent of a read-only store, with the records that its log has, and its size.
func (r *Restorer) file(e *extent, f io.ReaderAt, size int64) (io.ReaderAt, int64) {
	if r == nil || e.named || e.partial {
		return f, size
	}
	records := r.records[e.id]
	if len(records) == 0 {
		return f, size
	}
	slices.SortStableFunc(records, func(a, b restored) int { return int(a.offset - b.offset) })
	last := records[len(records)-1]
	return &patched{f, size, records}, max(size, last.offset+int64(len(last.record)))
}

// patched is a file with some of its content, and what lies behind its end, replaced by records. Records do not
// overlap.
type patched struct {
	f       io.ReaderAt
	size    int64
	records []restored // by offset
}

// ReadAt implements io.ReaderAt.
func (x *patched) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	n, err := x.f.ReadAt(p, off)
	if err != nil && err != io.EOF {
		return n, err
	}
	i, _ := slices.BinarySearchFunc(x.records, off,
		func(r restored, off int64) int { return int(r.offset + int64(len(r.record)) - off - 1) })
	for ; i < len(x.records) && x.records[i].offset < off+int64(len(p)); i++ {
		r := x.records[i]
		from := max(r.offset, off)
		n = max(n, int(from-off)+copy(p[from-off:], r.record[from-r.offset:]))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
