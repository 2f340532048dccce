package queue

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// contract holds what every kind of store does, whatever NATS it is on. Each part gets a store without queues.
var contract = map[string]func(t *testing.T, s *Store){
	"life of a message":             testLifeOfAMessage,
	"expired messages never appear": testExpiredMessagesNeverAppear,
	"many are got in order":         testGetManyInOrder,
	"clear":                         testClear,
	"names":                         testQueuesInTheCatalog,
	"a deleted queue can be made again at once": testDeletedQueueCanBeMadeAgainAtOnce,
	"concurrent callers":                        testConcurrentCallers,
}

// TestContract runs the contract on queues in memory, in files, on an external server, and on a cluster of three
// servers.
func TestContract(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(t *testing.T) (open func(t *testing.T) *Store){
		"memory": func(*testing.T) func(t *testing.T) *Store {
			return func(t *testing.T) *Store { return memory(t) }
		},
		"file": func(*testing.T) func(t *testing.T) *Store {
			return func(t *testing.T) *Store { return open(t, startNATS(t, natsserver.Config{Dir: t.TempDir()})) }
		},
		"external": func(t *testing.T) func(t *testing.T) *Store {
			n := startNATS(t, natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
			return func(t *testing.T) *Store { return emptied(t, natsserver.Config{URL: n.ClientURL()}) }
		},
		"three nodes": func(t *testing.T) func(t *testing.T) *Store {
			if testing.Short() {
				t.Skip("a cluster takes seconds to start")
			}
			c := natscluster.Start(t, 3)
			return func(t *testing.T) *Store { return emptied(t, natsserver.Config{URL: c.URL(), Replicas: 3}) }
		},
	}
	for kind, prepare := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			open := prepare(t)
			for name, part := range contract {
				t.Run(name, func(t *testing.T) { part(t, open(t)) })
			}
		})
	}
}

// emptied opens a store on a NATS that others have used, and deletes their queues.
func emptied(t *testing.T, c natsserver.Config) *Store {
	t.Helper()
	s := open(t, startNATS(t, c))
	list, _, err := s.List("acct", "", "", 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		if err := s.Delete("acct", q.Name); err != nil && !errors.Is(err, ErrQueueNotFound) {
			t.Fatal(err)
		}
	}
	return s
}
