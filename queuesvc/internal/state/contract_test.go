package state

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// contract is what every kind of store does, whatever NATS it is on. Each part gets a store without queues.
var contract = map[string]func(t *testing.T, s *Store){
	"life of a message":             testLifeOfAMessage,
	"expired messages never appear": testExpiredMessagesNeverAppear,
	"many are got in order":         testGetManyInOrder,
	"clear":                         testClear,
	"put after clear":               testPutAfterClear,
	"catalog":                       testQueuesInTheCatalog,
	"a deleted queue can be made again at once":  testDeletedQueueCanBeMadeAgainAtOnce,
	"concurrent callers":                         testConcurrentCallers,
	"receipts survive that a message is copied":  testReceiptsOfCopies,
	"receipts are accepted by other front-ends":  testReceiptsAreAccepted,
	"the old end is cut off and nothing is lost": testCutKeepsMessages,
}

// TestContract runs the contract on queues in memory, in files, on an external server, and on a cluster of three nodes.
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
			c := startCluster(t)
			return func(t *testing.T) *Store { return emptied(t, natsserver.Config{URL: c.url(), Replicas: 3}) }
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
	n := startNATS(t, c)
	var s *Store
	eventually(t, func() (err error) { // a young cluster may still change its leader
		if s == nil {
			if s, err = Open(ctx, n, slog.New(slog.DiscardHandler)); err != nil {
				return err
			}
			t.Cleanup(s.Close)
			s.client.timeout = 5 * time.Second
		}
		list, _ := s.List("acct", "", "", 1000)
		for _, q := range list {
			if err := s.Delete(ctx, "acct", q.Name); err != nil && !errors.Is(err, ErrQueueNotFound) {
				return err
			}
		}
		return nil
	})
	return s
}

// settle waits until the index knows the whole stream.
func settle(t *testing.T, q *Queue) {
	t.Helper()
	count(t, q, epoch)
	eventually(t, func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.loading != loaded {
			return errors.New("loading")
		}
		return nil
	})
}

// What is copied to the new end of the stream keeps its receipt, its id and its state.
func testReceiptsOfCopies(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	putOne(t, q, "held", epoch)
	held := getOne(t, q, epoch)
	settle(t, q)
	for range 2 { // also a copy of a copy
		q.mu.Lock()
		batch := q.index.older(1<<40, 10)
		q.mu.Unlock()
		if n, err := q.copy(ctx, batch); n != 1 || err != nil {
			t.Fatalf("copied %d, %v", n, err)
		}
	}
	if m := getOne(t, q, epoch); m != nil {
		t.Errorf("a copy of a message that is held was handed out: %v", m)
	}
	again := getOne(t, q, epoch.Add(2*time.Minute))
	if again == nil || again.ID != held.ID || again.DequeueCount != 2 {
		t.Fatalf("got %v", again)
	}
	settle(t, q)
	q.mu.Lock()
	batch := q.index.older(1<<40, 10)
	q.mu.Unlock()
	if n, err := q.copy(ctx, batch); n != 1 || err != nil {
		t.Fatalf("copied %d, %v", n, err)
	}
	wantErr(t, "the receipt of the first time", q.Delete(ctx, held.ID, held.Receipt, epoch), ErrReceiptMismatch)
	changed, err := q.Update(ctx, again.ID, again.Receipt, []byte("new"), time.Minute, epoch)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "the receipt before the update", q.Delete(ctx, again.ID, again.Receipt, epoch), ErrReceiptMismatch)
	if err := q.Delete(ctx, again.ID, changed.Receipt, epoch); err != nil {
		t.Error(err)
	}
}

// The text of a receipt means the same to every store on one NATS.
func testReceiptsAreAccepted(t *testing.T, s *Store) {
	if s.nats.InMemory() || !s.shared {
		t.Skip("nobody else is there")
	}
	q := create(t, s, "orders")
	m := putOne(t, q, "x", epoch)
	other, err := Open(ctx, s.nats, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	elsewhere := find(t, other, "orders")
	r, ok := elsewhere.ParseReceipt(m.ID, q.ReceiptText(m.ID, m.Receipt))
	if r != m.Receipt || !ok {
		t.Errorf("read as %d, %v; want %d", r, ok, m.Receipt)
	}
	if err := elsewhere.Delete(ctx, m.ID, r, epoch); err != nil {
		t.Error(err)
	}
}

// Cutting the old end off takes nothing that is needed, and what is put afterwards is there.
func testCutKeepsMessages(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	s.quiet = 0
	for i := range 200 {
		m := putOne(t, q, "goes", epoch)
		if i == 150 {
			putOne(t, q, "stays", epoch)
		}
		if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, q)
	for range 2 {
		if err := q.cutOldEnd(ctx); err != nil {
			t.Fatal(err)
		}
	}
	putOne(t, q, "later", epoch.Add(time.Second))
	for _, want := range []string{"stays", "later"} {
		if m := getOne(t, q, epoch.Add(time.Second)); m == nil || string(m.Body) != want {
			t.Errorf("got %v, want %s", m, want)
		}
	}
	if m := getOne(t, q, epoch.Add(time.Second)); m != nil {
		t.Errorf("got %v as well", m)
	}
}
