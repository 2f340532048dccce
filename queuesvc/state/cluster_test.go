package state

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/natsd"
)

// cluster is three NATS servers in this process that the test stops and starts.
type cluster struct {
	t     testing.TB
	dirs  [3]string
	ports [3]int // for clients, then for each other
	peers [3]int
	nodes [3]*server.Server
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func startCluster(t testing.TB) *cluster {
	c := &cluster{t: t}
	for i := range c.nodes {
		c.dirs[i], c.ports[i], c.peers[i] = t.TempDir(), freePort(t), freePort(t)
	}
	for i := range c.nodes {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
	})
	eventually(fatal{t}, func() error {
		for _, n := range c.nodes {
			if n.JetStreamIsLeader() && n.JetStreamIsCurrent() && len(n.JetStreamClusterPeers()) == 3 {
				return nil
			}
		}
		return errors.New("the cluster has no leader")
	})
	return c
}

// fatal gives eventually the test that runs.
type fatal struct{ testing.TB }

func (f fatal) Fatalf(format string, args ...any) { f.TB.Helper(); f.TB.Fatalf(format, args...) }

func (c *cluster) start(i int) {
	c.t.Helper()
	var routes []string
	for _, port := range c.peers {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	n, err := server.NewServer(&server.Options{
		ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: c.ports[i], JetStream: true, StoreDir: c.dirs[i],
		Cluster: server.ClusterOpts{Name: "lazuli", Host: "127.0.0.1", Port: c.peers[i]},
		Routes:  server.RoutesFromStr(strings.Join(routes, ",")), NoSigs: true, NoLog: true,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
	n.Start()
}

func (c *cluster) stop(i int) {
	if n := c.nodes[i]; n != nil {
		n.Shutdown()
		n.WaitForShutdown()
		c.nodes[i] = nil
	}
}

func (c *cluster) url() string {
	var urls []string
	for _, port := range c.ports {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	return strings.Join(urls, ",")
}

// history is what callers saw of each message, for the checker.
type history struct {
	mu        sync.Mutex
	sent      map[string]bool        // acknowledged by Put
	maybe     map[string]bool        // Put failed: it may be there
	deleted   map[string]bool        // acknowledged by Delete
	uncertain map[string]bool        // Delete failed: it may be gone
	held      map[string][]time.Time // when each hand-out began
	last      map[string]time.Time   // end of the latest visibility timeout
	doubles   []string               // handed out again within it
	ghosts    []string               // handed out after an acknowledged Delete
	requests  atomic.Int64
	failures  atomic.Int64
}

func newHistory() *history {
	return &history{sent: map[string]bool{}, maybe: map[string]bool{}, deleted: map[string]bool{}, uncertain: map[string]bool{},
		held: map[string][]time.Time{}, last: map[string]time.Time{}}
}

// handedOut notes a hand-out that was asked for at asked, by the callers' one clock. A message that was handed out by a
// request that began before the earlier hand-out's time was over is a double.
func (h *history) handedOut(body string, nextVisible, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if end, ok := h.last[body]; ok && asked.Before(end) {
		h.doubles = append(h.doubles, body)
	}
	if h.deleted[body] {
		h.ghosts = append(h.ghosts, body)
	}
	h.held[body] = append(h.held[body], asked)
	h.last[body] = nextVisible
}

// work lets producers and consumers work on queues until stop is closed.
func (h *history) work(t *testing.T, queues []*Queue, stop <-chan struct{}) *sync.WaitGroup {
	const visibility = 2 * time.Second
	var wg sync.WaitGroup
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	for p := range 4 {
		wg.Go(func() {
			q := queues[p%len(queues)]
			for i := 0; !stopped(); i++ {
				body := fmt.Sprintf("%d-%d", p, i)
				_, err := q.Put(ctx, []byte(body), 0, Forever, time.Now())
				h.requests.Add(1)
				h.mu.Lock()
				if err == nil {
					h.sent[body] = true
				} else {
					h.failures.Add(1)
					h.maybe[body] = true
				}
				h.mu.Unlock()
			}
		})
	}
	for c := range 4 {
		wg.Go(func() {
			q := queues[c%len(queues)]
			for !stopped() {
				h.consume(q, 1+rand.IntN(4), visibility)
			}
		})
	}
	return &wg
}

// consume gets messages and deletes most of them.
func (h *history) consume(q *Queue, n int, visibility time.Duration) int {
	asked := time.Now()
	list, err := q.Get(ctx, n, visibility, asked)
	h.requests.Add(1)
	if err != nil {
		h.failures.Add(1)
		return -1
	}
	for _, m := range list {
		body := string(m.Body)
		h.handedOut(body, time.Unix(0, m.NextVisible), asked)
		if rand.IntN(10) == 0 {
			continue // a consumer that dies: somebody else gets it later
		}
		now := time.Now()
		err := q.Delete(ctx, m.ID, m.Receipt, now)
		h.requests.Add(1)
		h.mu.Lock()
		switch {
		case err == nil:
			h.deleted[body] = true
		case errors.Is(err, ErrMessageNotFound), errors.Is(err, ErrReceiptMismatch):
			if !h.uncertain[body] && now.Before(time.Unix(0, m.NextVisible)) {
				h.doubles = append(h.doubles, body+" (receipt dead within its time)")
			}
		default:
			h.failures.Add(1)
			h.uncertain[body] = true
		}
		h.mu.Unlock()
	}
	return len(list)
}

// drain consumes until nothing has been there for longer than the visibility timeout.
func (h *history) drain(t *testing.T, queues []*Queue) {
	t.Helper()
	empty := time.Time{}
	eventually(fatal{t}, func() error {
		for _, q := range queues {
			if h.consume(q, 32, time.Second) != 0 {
				empty = time.Time{}
				return errors.New("messages are left")
			}
		}
		if empty.IsZero() {
			empty = time.Now()
		}
		if time.Since(empty) < 2500*time.Millisecond {
			return errors.New("hidden messages may be left")
		}
		return nil
	})
}

// check classifies every message and fails where one was lost or handed out twice within its time.
func (h *history) check(t *testing.T) {
	t.Helper()
	var ok, lost, unknown int
	for body := range h.sent {
		switch {
		case h.deleted[body]:
			ok++
		case h.uncertain[body]:
			unknown++
		default:
			lost++
			t.Errorf("lost: %s was put and never deleted; handed out %d times", body, len(h.held[body]))
		}
	}
	for body := range h.maybe {
		if !h.deleted[body] {
			unknown++
		}
	}
	for _, body := range h.doubles {
		t.Errorf("handed out twice within its visibility timeout: %s", body)
	}
	for _, body := range h.ghosts {
		t.Errorf("handed out after it was deleted: %s", body)
	}
	t.Logf("%d requests, %d failed; messages: ok %d, lost %d, duplicated within visibility %d, unknown %d",
		h.requests.Load(), h.failures.Load(), ok, lost, len(h.doubles), unknown)
	if ok == 0 {
		t.Error("nothing was done")
	}
}

// TestClusterWithNodesStopped works on one queue through two front-ends on a cluster of three nodes, of which one after
// the other is stopped and started again.
func TestClusterWithNodesStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	c := startCluster(t)
	var queues []*Queue
	for i := range 2 {
		n, err := natsd.Start(natsd.Config{URL: c.url(), Replicas: 3, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		s := open(t, n)
		if i == 0 {
			create(t, s, "orders")
		}
		queues = append(queues, find(t, s, "orders"))
	}
	h := newHistory()
	stop := make(chan struct{})
	working := h.work(t, queues, stop)
	for round := range 6 {
		before := h.requests.Load()
		c.stop(round % 3)
		eventually(fatal{t}, func() error { // with a node less, work goes on
			if h.requests.Load() < before+500 {
				return errors.New("work has stopped")
			}
			return nil
		})
		c.start(round % 3)
		eventually(fatal{t}, func() error {
			if !c.nodes[round%3].JetStreamIsCurrent() {
				return errors.New("the node has not caught up")
			}
			return nil
		})
	}
	close(stop)
	working.Wait()
	h.drain(t, queues)
	h.check(t)
}

// TestTwoFrontendsShareAQueue is the same without faults, on a server of one node.
func TestTwoFrontendsShareAQueue(t *testing.T) {
	first := startNATS(t, natsd.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	second := startNATS(t, natsd.Config{URL: first.ClientURL()})
	queues := []*Queue{create(t, open(t, first), "orders")}
	queues = append(queues, find(t, open(t, second), "orders"))
	h := newHistory()
	stop := make(chan struct{})
	working := h.work(t, queues, stop)
	eventually(fatal{t}, func() error {
		if h.requests.Load() < 3000 {
			return errors.New("working")
		}
		return nil
	})
	close(stop)
	working.Wait()
	if n := h.failures.Load(); n > 0 {
		t.Errorf("%d requests failed", n)
	}
	h.drain(t, queues)
	h.check(t)
	for i, q := range queues {
		eventually(fatal{t}, func() error {
			if n := count(t, q, time.Now()); n != 0 {
				return fmt.Errorf("front-end %d counts %d messages", i, n)
			}
			return nil
		})
	}
}
