package eventlog

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// open opens the log in a folder. shared is set if other nodes use the database.
func open(t *testing.T, dir string, shared bool) *Log {
	t.Helper()
	return openArchived(t, dir, shared, nil)
}

// openArchived is open with an archive.
func openArchived(t *testing.T, dir string, shared bool, archive store.Archive) *Log {
	t.Helper()
	const events, subscriptions, meta store.Bucket = "events", "subscribers", "meta"
	db, err := store.Open(filepath.Join(dir, "log.db"),
		store.Options{Buckets: []store.Bucket{events, subscriptions, meta}, Archive: archive})
	check.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	last := func(tx *store.Tx) (n uint64) {
		if v := tx.Get(meta, []byte("last")); v != nil {
			n = binary.BigEndian.Uint64(v)
		}
		return n
	}
	l, err := Open(Config{DB: db, Events: events, Subscriptions: subscriptions, Last: last, Shared: shared,
		Check: func(*store.Tx) error { return nil },
		Next: func(tx *store.Tx) uint64 {
			n := last(tx) + 1
			tx.Put(meta, []byte("last"), binary.BigEndian.AppendUint64(nil, n))
			return n
		}})
	check.OK(t, err)
	return l
}

func intent(subject string) Change {
	return Change{Origin: Origin{Operation: "PutMessage"}, Type: "T", Subject: subject, Data: []byte(`{}`)}
}

// subjects returns what a reader of the log sees: the subjects, with a question mark if the outcome is unknown.
func (l *Log) subjects(t *testing.T) (list []string) {
	t.Helper()
	events, _, err := l.Read("a", 0, 100, 1<<20)
	check.OK(t, err)
	for _, e := range events {
		subject := e.Change.Subject
		if !e.Change.Confirmed {
			subject += "?"
		}
		list = append(list, subject)
	}
	return list
}

// A reader sees an intent once it is settled, and none after it before; intents of a process that was killed have an
// unknown outcome.
func TestIntents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, false)
	numbers, err := s.Begin("a", []Change{intent("made"), intent("refused"), intent("waiting"), intent("later")})
	check.OK(t, err)
	confirmed := intent("made")
	confirmed.Confirmed = true
	later := intent("later")
	later.Confirmed = true
	if got := s.subjects(t); got != nil {
		t.Errorf("before any request has ended, the log has %v", got)
	}
	check.OK(t, s.Settle("a",
		[]Settled{{Number: numbers[0], Change: confirmed}, {Number: numbers[1], Removed: true},
			{Number: numbers[3], Change: later}}))
	if diff := cmp.Diff([]string{"made"}, s.subjects(t)); diff != "" {
		t.Errorf("while a request runs (-want +got):\n%s", diff)
	}
	_, upTo, err := s.Read("a", 0, 100, 1<<20)
	check.OK(t, err)
	if upTo != numbers[2]-1 {
		t.Errorf("the log is complete up to %d, want %d, before the request that runs", upTo, numbers[2]-1)
	}
	check.OK(t, s.DB.Close())
	s = open(t, dir, false)
	if diff := cmp.Diff([]string{"made", "waiting?", "later"}, s.subjects(t)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if e, ok, err := s.Get("a", numbers[2]); err != nil || !ok || e.Change.Subject != "waiting" {
		t.Errorf("Get: %v %v %v", e, ok, err)
	}
}

// Intents whose outcome cannot be stored do not hold up the reader.
func TestUnsettledIntents(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), false)
	numbers, err := s.Begin("a", []Change{intent("one")})
	check.OK(t, err)
	check.OK(t, s.DB.Close())
	if err := s.Settle("a", []Settled{{Number: numbers[0], Change: intent("one")}}); err == nil {
		t.Fatal("a closed database took the outcome")
	}
	if !s.isUnsettled(Key("a", numbers[0])) {
		t.Error("the reader would wait for the intent")
	}
}

// In a cluster, an intent of another process may be one of a node that still works on the request: a reader waits for a
// while.
func TestIntentsOfOtherNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, false)
	numbers, err := s.Begin("a", []Change{intent("made"), intent("waiting"), intent("later")})
	check.OK(t, err)
	check.OK(t, s.DB.Close())
	s = open(t, dir, true)
	if got := s.subjects(t); got != nil {
		t.Errorf("while requests of another node may run, the log has %v", got)
	}
	made := intent("made")
	made.Confirmed = true
	check.OK(t, s.Settle("a", []Settled{{Number: numbers[0], Change: made}}))
	if diff := cmp.Diff([]string{"made"}, s.subjects(t)); diff != "" {
		t.Errorf("after one of them (-want +got):\n%s", diff)
	}
	s.intents.mu.Lock()
	for _, n := range numbers[1:] {
		s.intents.first[string(Key("a", n))] = time.Now().Add(-2 * intentPatience)
	}
	s.intents.mu.Unlock()
	if diff := cmp.Diff([]string{"made", "waiting?", "later?"}, s.subjects(t)); diff != "" {
		t.Errorf("after their node was lost (-want +got):\n%s", diff)
	}
}

// Intents that are begun for another process are those of another node, also for the process that has stored them: they
// do not hold up the reader for longer than a request may take.
func TestIntentsForAnotherProcess(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), true)
	lost := intent("lost")
	lost.Session = NewSession()
	numbers := check.Must(s.BeginFor("a", []Change{lost}))(t)
	if got := s.subjects(t); got != nil {
		t.Errorf("while the request may run, the log has %v", got)
	}
	s.intents.first[string(Key("a", numbers[0]))] = time.Now().Add(-2 * intentPatience)
	if diff := cmp.Diff([]string{"lost?"}, s.subjects(t)); diff != "" {
		t.Errorf("after the process was lost (-want +got):\n%s", diff)
	}
}

// withoutLeave lets a group be written and not be acknowledged.
type withoutLeave struct{ asked, from int }

func (*withoutLeave) Stamp() int64      { return time.Now().UnixNano() }
func (*withoutLeave) Drop()             {}
func (*withoutLeave) Group(store.Group) {}
func (*withoutLeave) Sync()             {}
func (*withoutLeave) Opened(uint64)     {}
func (w *withoutLeave) Allow() error {
	if w.asked++; w.from > 0 && w.asked > w.from {
		return errors.New("no leave")
	}
	return nil
}

// Intents that may be in the log although their request was refused do not hold up the reader.
func TestIntentsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := &withoutLeave{}
	s := openArchived(t, t.TempDir(), false, w)
	w.from = w.asked + 1
	if _, err := s.Begin("a", []Change{intent("refused")}); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("error %v, want ErrUnknown", err)
	}
	w.from = 0
	check.Must(s.Begin("a", []Change{intent("running")}))(t)
	if diff := cmp.Diff([]string{"refused?"}, s.subjects(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
