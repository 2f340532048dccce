package accounts

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// table are records in memory. listing, if set, is called while they are read.
type table struct {
	Records
	mu      sync.Mutex
	records map[string][]byte
	listing func()
}

func (r *table) List(_, after string, n int) (list []blob.StoredAccount, err error) {
	r.mu.Lock()
	records := maps.Clone(r.records)
	r.mu.Unlock()
	if r.listing != nil {
		r.listing()
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if name > after && len(list) < n {
			list = append(list, blob.ReadStoredAccount(name, records[name]))
		}
	}
	return list, nil
}

// put changes a record and notes it; nil removes it.
func (r *table) put(j *Journal, name string, value []byte) {
	r.mu.Lock()
	if r.records[name] = value; value == nil {
		delete(r.records, name)
	}
	r.mu.Unlock()
	j.Note(name, value)
}

func textOf(records map[string][]byte) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		list = append(list, name+"="+string(records[name]))
	}
	return strings.Join(list, " ")
}

// A journal says what has changed since a position, all accounts to those who are too far behind, and no account as it
// was before what the position says.
func TestJournal(t *testing.T) {
	t.Parallel()
	j, r := NewJournal(), &table{records: map[string][]byte{"a": []byte("1"), "b": []byte("1")}}
	never := make(chan struct{})
	since := func(p Position) Changes {
		t.Helper()
		return check.Must(j.Since(t.Context(), p, time.Hour, never, r))(t)
	}
	// Both change while the list is made.
	r.listing = func() {
		r.listing = nil
		r.put(j, "a", []byte("2"))
		r.put(j, "b", nil)
	}
	c := since(Position{})
	if got := textOf(recordsOf(c.Records)); !c.Whole || got != "a=2" {
		t.Errorf("all accounts are %q, whole %v", got, c.Whole)
	}
	r.put(j, "c", []byte("1"))
	r.put(j, "c", []byte("2"))
	if c = since(c.Position); c.Whole || textOf(recordsOf(c.Records)) != "c=2" || len(c.Records) != 2 {
		t.Errorf("the changes are %+v", c)
	}
	done := make(chan Changes)
	go func() { done <- since(c.Position) }()
	r.put(j, "a", nil)
	if c = <-done; textOf(recordsOf(c.Records)) != "a=" || c.Records[0].Value != nil {
		t.Errorf("a wait ends with %+v", c)
	}
	ended := make(chan struct{})
	close(ended)
	if none := check.Must(j.Since(t.Context(), c.Position, time.Hour, ended, r))(t); len(none.Records) != 0 ||
		none.Position != c.Position {
		t.Errorf("a wait that is ended has %+v", none)
	}
	before := c.Position
	for i := range 2*maxJournal + 1 {
		r.put(j, "n", []byte{byte(i)})
	}
	if c = since(before); !c.Whole {
		t.Error("the journal says that it has all changes")
	}
	if c = since(Position{before.Journal, c.Position.At + 1}); !c.Whole {
		t.Error("the journal knows a position that it has not had")
	}
	j.Restart()
	if again := since(c.Position); !again.Whole || again.Position.Journal == c.Position.Journal {
		t.Error("the journal goes on after changes that it may have missed")
	}
}

// followed is what a follower has applied.
type followed struct {
	*Follower
	mu      sync.Mutex
	records map[string][]byte
	journal *Journal
	away    bool // no node answers
}

func newFollowed(path string, j *Journal, r *table) *followed {
	f := &followed{journal: j, records: map[string][]byte{}}
	f.Follower = &Follower{Path: path, Log: slog.New(slog.DiscardHandler),
		Source: func(ctx context.Context, p Position) (Changes, error) {
			f.mu.Lock()
			away := f.away
			f.mu.Unlock()
			if away {
				return Changes{}, errors.New("away")
			}
			return j.Since(ctx, p, time.Minute, nil, r)
		},
		Apply: func(name string, value []byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.records[name] = value; value == nil {
				delete(f.records, name)
			}
		},
		All: func(records map[string][]byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.records = maps.Clone(records)
		}}
	return f
}

func (f *followed) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return textOf(f.records)
}

// run runs the follower; the function that it returns ends that.
func (f *followed) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// A node that does not have the records follows them, and starts with its copy while no node answers.
func TestFollower(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "accounts.json")
	j, r := NewJournal(), &table{records: map[string][]byte{"a": []byte("1")}}
	f := newFollowed(path, j, r)
	f.records = check.Must(f.Load(t.Context()))(t)
	stop := f.run(t)
	r.put(j, "b", []byte("1"))
	r.put(j, "a", []byte("2"))
	if !f.Await(t.Context(), j.Position()) {
		t.Error("the journal that is followed counts as another one")
	}
	if got := f.text(); got != "a=2 b=1" {
		t.Errorf("the node has %q", got)
	}
	if f.Await(t.Context(), Position{Journal: "other", At: 1}) {
		t.Error("what another journal has counts as followed")
	}
	r.put(j, "b", nil)
	check.Eventually(t, func() bool { return f.text() == "a=2" }, "the removal is followed")
	j.Restart() // another node answers
	r.put(j, "c", []byte("1"))
	check.Eventually(t, func() bool { return f.text() == "a=2 c=1" }, "another journal is followed")
	stop()

	// Its next start, while no node answers.
	next := newFollowed(path, j, r)
	next.away = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // not the wait of ten seconds
	if got := textOf(check.Must(next.Load(ctx))(t)); got != "a=2 c=1" {
		t.Errorf("the copy has %q", got)
	}
	stop = next.run(t)
	r.put(j, "a", nil)
	next.mu.Lock()
	next.away = false
	next.mu.Unlock()
	check.Eventually(t, func() bool { return next.text() == "c=1" }, "the accounts are followed again")
	stop()

	// Without a copy, or with a damaged one, there is nothing to start with.
	text := check.Must(os.ReadFile(path))(t)
	text[len(text)/2] ^= 1
	check.OK(t, os.WriteFile(path, text, 0o600))
	for _, path := range []string{path, filepath.Join(t.TempDir(), "none")} {
		last := newFollowed(path, j, r)
		last.away = true
		if got, err := last.Load(ctx); err == nil {
			t.Errorf("a node without accounts starts with %q", textOf(got))
		}
	}
}
