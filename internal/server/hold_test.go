package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Clients write a message, then an entity that names it, then a blob that names both, each at another node and after
// the write before was acknowledged. No moment that was taken with held writes has an effect without its cause,
// whichever node takes it, also after a node has died.
func TestHeldMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newTestCluster(t, 3)
	c.start(0, 1, 2)
	madeBy(c.tenant(0).tables.CreateTable(t.Context(), "links", nil))(t)
	madeBy(c.tenant(0).queues.CreateQueue(t.Context(), "links", nil))(t)
	madeBy(c.tenant(0).blobs.CreateContainer(t.Context(), "links", nil))(t)
	// chains writes links until stop is called. nodes are those that serve.
	chains := func(name string, nodes ...int) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		tenants := map[int]*tenant{}
		for _, n := range nodes {
			tenants[n] = c.tenant(n)
		}
		for chain := range 2 {
			at := func(step int) *tenant { return tenants[nodes[(chain+step)%len(nodes)]] }
			wait.Go(func() {
				for n := 1; ctx.Err() == nil; n++ {
					link := fmt.Sprintf("link-%s-%d-%06d", name, chain, n)
					check.Must(at(n).queues.NewQueueClient("links").EnqueueMessage(t.Context(), link, nil))(t)
					madeBy(at(n+1).tables.NewClient("links").AddEntity(t.Context(),
						fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, link), nil))(t)
					check.Must(at(n+2).blobs.UploadBuffer(t.Context(), "links", link, []byte(link), nil))(t)
				}
			})
		}
		return func() { cancel(); wait.Wait() }
	}
	moments := func(count int, name string, nodes ...int) {
		t.Helper()
		var longest float64
		for range count {
			node := nodes[rand.IntN(len(nodes))]
			m := heldMoment(t, c.nodes[node])
			if !m.Info().Held {
				t.Error("the moment does not say that writes were held")
			}
			longest = max(longest, m.Info().HeldSeconds)
			for chain := range 2 {
				prefix := fmt.Sprintf("link-%s-%d-", name, chain)
				queue, table, blobs := lastLink(t, m, "queues", prefix), lastLink(t, m, "tables", prefix),
					lastLink(t, m, "blobs", prefix)
				if queue < table || table < blobs || queue > blobs+1 {
					t.Errorf("node %d: message %d, entity %d, blob %d of %s", node, queue, table, blobs, prefix)
				}
			}
			check.OK(t, m.Close())
		}
		t.Logf("%d moments; writes were held for %.3f s at most", count, longest)
	}
	stop := chains("a", 0, 1, 2)
	moments(check.Size(8, 60), "a", 0, 1, 2)
	stop()
	// Without one node, that of a home, whose death no other node has to notice.
	lost := c.home("queues")
	others := []int{(lost + 1) % 3, (lost + 2) % 3}
	c.stop(lost)
	c.home("queues")
	c.home("tables")
	c.home("blobs")
	stop = chains("b", others...)
	moments(check.Size(4, 20), "b", others...)
	stop()
	if c.nodes[others[0]].member.Load().Format() < peering.HoldFormat {
		t.Error("a new cluster has not the format that holds writes")
	}
}

// lastLink returns the highest number after a prefix in a database of a moment, 0 without one.
func lastLink(t *testing.T, m *Moment, database, prefix string) (last int) {
	t.Helper()
	link := regexp.MustCompile(prefix + `(\d{6})`)
	check.OK(t, m.Database(t.Context(), database, func(part []byte) error {
		for _, found := range link.FindAllSubmatch(part, -1) {
			n, err := strconv.Atoi(string(found[1]))
			check.OK(t, err)
			last = max(last, n)
		}
		return nil
	}))
	return last
}

// heldMoment takes a moment for which writes are held. On a busy machine an election, or an answer that comes late,
// ends an attempt.
func heldMoment(t *testing.T, s *Server) (m *Moment) {
	t.Helper()
	check.Eventually(t, func() bool {
		var err error
		m, err = s.HeldMoment(t.Context())
		again := errors.Is(err, store.ErrNotHeld) || errors.Is(err, ErrNotReady) || errors.Is(err, store.ErrUnavailable) ||
			errors.Is(err, store.ErrUnknown)
		if err != nil && !again {
			t.Fatal(err)
		}
		return err == nil
	}, "writes are held")
	return m
}

// A single server has moments of all services in any case, and one whose logs are elsewhere cannot hold writes.
func TestHeldMomentAlone(t *testing.T) {
	t.Parallel()
	s := startManaged(t, Config{})
	m := check.Must(s.HeldMoment(t.Context()))(t)
	if i := m.Info(); !i.Held || i.HeldSeconds != 0 {
		t.Errorf("%+v", i)
	}
	check.OK(t, m.Close())
	s.config.NATS.URL = "nats://elsewhere"
	if _, err := s.HeldMoment(t.Context()); !errors.Is(err, ErrCannotHold) {
		t.Errorf("%v", err)
	}
	s.config.NATS.URL = ""
}
