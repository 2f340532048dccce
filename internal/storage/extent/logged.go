package extent

import (
	"encoding/binary"
	"errors"
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
