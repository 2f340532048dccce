package state

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func openForIntents(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"), LogEvents: true})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func intent(subject string) Intent {
	return Intent{Origin: Origin{Operation: "PutMessage"},
		ForeignEvent: ForeignEvent{Type: "T", Subject: subject, Data: []byte(`{}`)}}
}

// logged returns what a reader of the log sees: the subjects, with a question mark if the outcome is unknown.
func (s *Store) loggedSubjects(t *testing.T) (list []string) {
	t.Helper()
	events, _, err := s.LoggedEvents("a", 0, 100, 1<<20)
	check.OK(t, err)
	for _, e := range events {
		subject := e.Foreign.Subject
		if !e.Foreign.Confirmed {
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
	s := openForIntents(t, dir)
	numbers, err := s.LogIntents("a", []Intent{intent("made"), intent("refused"), intent("waiting"), intent("later")})
	check.OK(t, err)
	confirmed := intent("made")
	confirmed.Confirmed = true
	later := intent("later")
	later.Confirmed = true
	if got := s.loggedSubjects(t); got != nil {
		t.Errorf("before any request has ended, the log has %v", got)
	}
	check.OK(t, s.SettleIntents("a",
		[]Settled{{Number: numbers[0], Intent: confirmed}, {Number: numbers[1], Removed: true},
			{Number: numbers[3], Intent: later}}))
	if diff := cmp.Diff([]string{"made"}, s.loggedSubjects(t)); diff != "" {
		t.Errorf("while a request runs (-want +got):\n%s", diff)
	}
	_, upTo, err := s.LoggedEvents("a", 0, 100, 1<<20)
	check.OK(t, err)
	if upTo != numbers[2]-1 {
		t.Errorf("the log is complete up to %d, want %d, before the request that runs", upTo, numbers[2]-1)
	}
	check.OK(t, s.Close())
	s = openForIntents(t, dir)
	if diff := cmp.Diff([]string{"made", "waiting?", "later"}, s.loggedSubjects(t)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if e, ok, err := s.LoggedEvent("a", numbers[2]); err != nil || !ok || e.Foreign.Subject != "waiting" {
		t.Errorf("LoggedEvent: %v %v %v", e, ok, err)
	}
}

// Intents whose outcome cannot be stored do not hold up the reader.
func TestUnsettledIntents(t *testing.T) {
	t.Parallel()
	s := openForIntents(t, t.TempDir())
	numbers, err := s.LogIntents("a", []Intent{intent("one")})
	check.OK(t, err)
	check.OK(t, s.db.Close())
	if err := s.SettleIntents("a", []Settled{{Number: numbers[0], Intent: intent("one")}}); err == nil {
		t.Fatal("a closed database took the outcome")
	}
	if !s.isUnsettled(eventKey("a", numbers[0])) {
		t.Error("the reader would wait for the intent")
	}
}

// In a cluster, an intent of another process may be one of a node that still works on the request: a reader waits for a
// while.
func TestIntentsOfOtherNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openForIntents(t, dir)
	numbers, err := s.LogIntents("a", []Intent{intent("made"), intent("waiting"), intent("later")})
	check.OK(t, err)
	check.OK(t, s.Close())
	s = openForIntents(t, dir)
	s.replicated = true
	if got := s.loggedSubjects(t); got != nil {
		t.Errorf("while requests of another node may run, the log has %v", got)
	}
	made := intent("made")
	made.Confirmed = true
	check.OK(t, s.SettleIntents("a", []Settled{{Number: numbers[0], Intent: made}}))
	if diff := cmp.Diff([]string{"made"}, s.loggedSubjects(t)); diff != "" {
		t.Errorf("after one of them (-want +got):\n%s", diff)
	}
	s.intents.mu.Lock()
	for _, n := range numbers[1:] {
		s.intents.first[string(eventKey("a", n))] = time.Now().Add(-2 * intentPatience)
	}
	s.intents.mu.Unlock()
	if diff := cmp.Diff([]string{"made", "waiting?", "later?"}, s.loggedSubjects(t)); diff != "" {
		t.Errorf("after their node was lost (-want +got):\n%s", diff)
	}
}
