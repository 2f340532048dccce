package state

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// epoch is where the tests' clock begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// startNATS starts a server that the test's end stops.
func startNATS(t testing.TB, c natsserver.Config) *natsserver.Server {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	n, err := natsserver.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// open opens a store that the test's end closes. Where no server is lost, a machine that is busy may take its time to answer.
func open(t testing.TB, n *natsserver.Server) *Store {
	t.Helper()
	s, err := Open(t.Context(), n, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if !s.replicated {
		s.client.timeout = time.Minute
	}
	return s
}

// memory opens a store in memory.
func memory(t testing.TB) *Store { return open(t, startNATS(t, natsserver.Config{})) }

// create makes a queue.
func create(t testing.TB, s *Store, name string) *Queue {
	t.Helper()
	if _, err := s.Create(context.Background(), "acct", name, nil); err != nil {
		t.Fatal(err)
	}
	return find(t, s, name)
}

func find(t testing.TB, s *Store, name string) *Queue {
	t.Helper()
	q, err := s.Queue(context.Background(), "acct", name)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
