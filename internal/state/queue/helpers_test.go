package queue

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// epoch is the position at which the tests' clock begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testNATS is a server, and the folder of the store that is opened on it.
type testNATS struct {
	*natsserver.Server
	dir string
}

// startNATS starts a server that the test's end stops.
func startNATS(t testing.TB, c natsserver.Config) *testNATS {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	n, err := natsserver.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	dir := c.Dir
	if dir == "" {
		dir = t.TempDir()
	}
	return &testNATS{n, dir}
}

func (n *testNATS) path() string { return filepath.Join(n.dir, "queues.db") }

// tryOpen opens a store whose background work begins at the tests' epoch.
func tryOpen(ctx context.Context, n *testNATS) (*Store, error) {
	o, err := StoreOptions(ctx, n.Server, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return Open(n.path(), Options{Store: o, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch }})
}

// open opens a store that the test's end closes.
func open(t testing.TB, n *testNATS) *Store {
	t.Helper()
	s, err := tryOpen(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// memory opens a store in memory.
func memory(t testing.TB) *Store {
	t.Helper()
	return open(t, startNATS(t, natsserver.Config{}))
}

// create makes a queue.
func create(t testing.TB, s *Store, name string) *Queue {
	t.Helper()
	if _, err := s.Create("acct", name, nil); err != nil {
		t.Fatal(err)
	}
	return find(t, s, name)
}

func find(t testing.TB, s *Store, name string) *Queue {
	t.Helper()
	q := s.Queue("acct", name)
	if _, err := q.Properties(context.Background(), epoch, false); err != nil {
		t.Fatal(err)
	}
	return q
}

// noValues accepts all values that are opaque to this package.
var noValues = Values{Properties: func([]byte) error { return nil }, Policies: func([]byte) error { return nil }}

// wantConsistent fails if the check finds anything.
func wantConsistent(t testing.TB, s *Store) Counts {
	t.Helper()
	n, err := Check(s.db, noValues, func(err error) { t.Errorf("check: %v", err) })
	if err != nil {
		t.Error(err)
	}
	return n
}
