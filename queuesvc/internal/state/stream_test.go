package state

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// hasStream reports whether a queue has a stream.
func hasStream(t testing.TB, q *Queue) bool {
	t.Helper()
	_, err := q.store.js.Stream(ctx, q.stream)
	if err != nil && !isNoStream(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestAQueueHasAStreamFromItsFirstMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	q := create(t, s, "orders")
	if hasStream(t, q) {
		t.Error("a stream before the first message")
	}
	// Without one, everything is as in an empty queue.
	if list, err := q.Get(ctx, 1, time.Minute, epoch); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if list, err := q.Peek(ctx, 1, epoch); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if n := count(t, q, epoch); n != 0 {
		t.Error(n)
	}
	if err := q.Clear(ctx); err != nil {
		t.Error(err)
	}
	_, err := q.Update(ctx, makeID(1, 2), 3, nil, 0, epoch)
	wantErr(t, "updating", err, ErrMessageNotFound)
	wantErr(t, "deleting", q.Delete(ctx, makeID(1, 2), 3, epoch), ErrMessageNotFound)
	if hasStream(t, q) {
		t.Error("a stream before the first message")
	}

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { _, _ = q.Put(ctx, []byte(fmt.Sprint(i)), 0, Forever, epoch) })
	}
	wg.Wait()
	if n := count(t, q, epoch); n != 8 || !hasStream(t, q) {
		t.Errorf("%d messages, want 8", n)
	}
	if err := s.SetMetadata(ctx, "acct", "orders", nil); err != nil {
		t.Fatal(err)
	}
	create(t, s, "unused")
	if _, list := problems(t, n); list != nil {
		t.Error(list)
	}
	s.Close()
	n.Close()

	s = open(t, startNATS(t, natsserver.Config{Dir: dir}))
	if m := getOne(t, find(t, s, "orders"), epoch); m == nil {
		t.Error("no message after a restart")
	}
	unused := find(t, s, "unused")
	if hasStream(t, unused) {
		t.Error("a stream without a message")
	}
	if err := s.Delete(ctx, "acct", "unused"); err != nil {
		t.Fatal(err)
	}
	_, err = unused.Put(ctx, nil, 0, Forever, epoch)
	wantErr(t, "putting into a deleted queue", err, ErrQueueNotFound)
	wantErr(t, "clearing it", unused.Clear(ctx), ErrQueueNotFound)
	wantErr(t, "deleting from it", unused.Delete(ctx, makeID(1, 2), 3, epoch), ErrQueueNotFound)
	if hasStream(t, unused) {
		t.Error("a deleted queue has a stream")
	}
}

// Queues that are empty at the end lose their streams; others keep theirs.
func TestEmptyQueuesArePutAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	s.parkTime = time.Minute
	q := create(t, s, "emptied")
	for range 3 {
		m := putOne(t, q, "x", epoch)
		if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
			t.Fatal(err)
		}
	}
	putOne(t, create(t, s, "full"), "x", epoch)
	hidden := create(t, s, "hidden")
	putOne(t, hidden, "x", epoch)
	getOne(t, hidden, epoch)
	s.Close()
	if _, list := problems(t, n); list != nil {
		t.Error(list)
	}
	n.Close()

	s = open(t, startNATS(t, natsserver.Config{Dir: dir}))
	for name, want := range map[string]bool{"emptied": false, "full": true, "hidden": true} {
		if got := hasStream(t, find(t, s, name)); got != want {
			t.Errorf("queue %s has a stream: %v, want %v", name, got, want)
		}
	}
	putOne(t, find(t, s, "emptied"), "again", epoch)
	if m := getOne(t, find(t, s, "emptied"), epoch); m == nil || string(m.Body) != "again" {
		t.Errorf("got %v", m)
	}
}

// Where others can look, and write, all queues have streams.
func TestStreamsAreMadeWhereOthersLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	create(t, s, "old")
	s.Close()
	n.Close()
	n = startNATS(t, natsserver.Config{Dir: dir, Listen: "127.0.0.1:0"})
	s = open(t, n)
	if !hasStream(t, find(t, s, "old")) || !hasStream(t, create(t, s, "new")) {
		t.Error("a queue cannot be seen")
	}
	// What a person finds with the nats command.
	conn, err := nats.Connect(n.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		name, _, _ := strings.Cut(strings.TrimPrefix(info.Config.Name, "queue_acct_"), "_")
		seen[name+": "+info.Config.Description] = true
	}
	for _, want := range []string{`old: Lazuli: queue "old" of account acct`, `new: Lazuli: queue "new" of account acct`} {
		if !seen[want] {
			t.Errorf("no stream %s among %v", want, seen)
		}
	}
}

// A process can be killed after a stream was made and before the catalog says so.
func TestAStreamThatTheCatalogDoesNotKnow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	create(t, s, "orders")
	entry := s.catalog.get("acct", "orders").entry
	if err := s.createStream(ctx, "acct", "orders", entry.Incarnation); err != nil {
		t.Fatal(err)
	}
	if _, list := problems(t, n); list != nil {
		t.Error(list)
	}
	s = crashClone(t, dir)
	q := find(t, s, "orders")
	putOne(t, q, "x", epoch)
	if m := getOne(t, q, epoch); m == nil {
		t.Error("no message")
	}
}
