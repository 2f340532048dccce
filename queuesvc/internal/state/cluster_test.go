package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/history"
)

// cluster is three NATS servers in this process that the test stops and starts.
type cluster struct {
	t     testing.TB
	dirs  [3]string
	ports [3]int // for clients, then for each other
	peers [3]int
	nodes [3]*server.Server
}

func startCluster(t testing.TB) *cluster {
	c := &cluster{t: t}
	for i := range c.nodes {
		c.dirs[i], c.ports[i], c.peers[i] = t.TempDir(), check.FreePort(t), check.FreePort(t)
	}
	for i := range c.nodes {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
	})
	eventually(t, func() error {
		for _, n := range c.nodes {
			if n.JetStreamIsLeader() && n.JetStreamIsCurrent() && len(n.JetStreamClusterPeers()) == 3 {
				return nil
			}
		}
		return errors.New("the cluster has no leader")
	})
	return c
}

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
		WriteDeadline: time.Minute, // a busy machine is no reason to end a connection
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
	n.Start()
	if !n.ReadyForConnections(patience) {
		c.t.Fatalf("node %d does not listen at its ports", i)
	}
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

// clientQueue makes a Queue one that histories are recorded of.
type clientQueue struct{ *Queue }

func (c clientQueue) Put(ctx context.Context, body string) error {
	_, err := c.Queue.Put(ctx, []byte(body), 0, Forever, time.Now())
	return err
}

func (c clientQueue) Get(ctx context.Context, n int) ([]history.Held, error) {
	now := time.Now()
	list, err := c.Queue.Get(ctx, n, history.Visibility, now)
	held := make([]history.Held, len(list))
	for i, m := range list {
		held[i] = history.Held{Body: string(m.Body), Asked: now, Handed: now, Until: time.Unix(0, m.NextVisible), Token: m}
	}
	return held, err
}

func (c clientQueue) Delete(ctx context.Context, h history.Held) error {
	m := h.Token.(Message)
	err := c.Queue.Delete(ctx, m.ID, m.Receipt, time.Now())
	if errors.Is(err, ErrMessageNotFound) || errors.Is(err, ErrReceiptMismatch) {
		return history.ErrDead
	}
	return err
}

// work records the history of producers and consumers until during has returned, and drains the queues. The caller
// checks it.
func work(t *testing.T, queues []history.Queue, during func(*history.History)) *history.History {
	t.Helper()
	h := history.New()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		h.Work(ctx, queues, 4, 4, stop)
	}()
	func() {
		defer func() { // also where during ends the test
			close(stop)
			<-ended
		}()
		during(h)
	}()
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.Drain(deadline, queues); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestClusterWithNodesStopped works on one queue through two front-ends on a cluster of three nodes, of which one after
// the other is stopped and started again. Nothing may be lost, nor handed out once too often.
func TestClusterWithNodesStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := startCluster(t)
	var queues []history.Queue
	for range 2 {
		n := startNATS(t, natsserver.Config{URL: c.url(), Replicas: 3})
		var s *Store
		eventually(t, func() (err error) { // a young cluster may still change its leader
			if s == nil {
				if s, err = Open(ctx, n, slog.New(slog.DiscardHandler)); err != nil {
					return err
				}
				t.Cleanup(s.Close)
			}
			_, err = s.Create(ctx, "acct", "orders", nil)
			return err
		})
		queues = append(queues, clientQueue{find(t, s, "orders")})
	}
	stream := queues[0].(clientQueue).stream
	h := work(t, queues, func(h *history.History) {
		for round := range 3 {
			before := h.Deleted()
			c.stop(round % 3)
			eventually(t, func() error { // with a node less, work goes on
				if h.Deleted() < before+150 {
					return fmt.Errorf("work has stopped: %d of %d requests failed, %d deletions", h.Failures(), h.Requests(), h.Deleted())
				}
				return nil
			})
			c.start(round % 3)
			eventually(t, func() error {
				if n := c.nodes[round%3]; !n.JetStreamIsCurrent() || !n.JetStreamIsStreamCurrent("$G", stream) {
					return errors.New("the node has not caught up")
				}
				return nil
			})
		}
	})
	h.Check(t)
}

// TestTwoFrontendsShareAQueue is the same without faults, on a server of one node.
func TestTwoFrontendsShareAQueue(t *testing.T) {
	t.Parallel()
	first := startNATS(t, natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	second := startNATS(t, natsserver.Config{URL: first.ClientURL()})
	queues := []*Queue{create(t, open(t, first), "orders")}
	queues = append(queues, find(t, open(t, second), "orders"))
	h := work(t, []history.Queue{clientQueue{queues[0]}, clientQueue{queues[1]}}, func(h *history.History) {
		eventually(t, func() error {
			if h.Deleted() < 400 {
				return errors.New("working")
			}
			return nil
		})
	})
	h.Check(t)
	if n := h.Failures(); n > 0 {
		t.Errorf("%d requests failed", n)
	}
	for i, q := range queues {
		eventually(t, func() error {
			if n := count(t, q, time.Now()); n != 0 {
				return fmt.Errorf("front-end %d counts %d messages", i, n)
			}
			return nil
		})
	}
}
