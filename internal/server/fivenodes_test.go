package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// fiveNodes is a cluster whose logs are on three of five nodes each.
type fiveNodes struct{ *testCluster }

// patient are options with retries for the time of an election, once those without.
var (
	patient = policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 200, RetryDelay: 100 * time.Millisecond,
		MaxRetryDelay: 500 * time.Millisecond}}
	once = policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
)

func (c fiveNodes) queue(node int, name string, o policy.ClientOptions) *azqueue.QueueClient {
	c.t.Helper()
	s := check.Must(azqueue.NewServiceClientFromConnectionString(c.nodes[node].ConnectionString(),
		&azqueue.ClientOptions{ClientOptions: o}))(c.t)
	return s.NewQueueClient(name)
}

// servers returns the nodes that keep each stream, by its name.
func (c fiveNodes) servers() map[string][]int {
	c.t.Helper()
	nats := c.nodes[0].services.Load().nats
	js := check.Must(jetstream.New(nats.Conn()))(c.t)
	streams := map[string][]int{}
	for _, name := range check.Must(nats.StreamNames(c.t.Context()))(c.t) {
		check.Eventually(c.t, func() bool { // it may have no leader for a moment
			s, err := js.Stream(c.t.Context(), name)
			if err != nil || s.CachedInfo().Cluster == nil || s.CachedInfo().Cluster.Leader == "" {
				return false
			}
			at := s.CachedInfo().Cluster
			folders := []string{at.Leader}
			for _, r := range at.Replicas {
				folders = append(folders, r.Name)
			}
			streams[name] = nil
			for i, n := range c.nodes {
				if slices.Contains(folders, n.services.Load().node.Folder()) {
					streams[name] = append(streams[name], i)
				}
			}
			return true
		}, "stream %s has no leader", name)
		if at := streams[name]; len(at) != 3 {
			c.t.Fatalf("stream %s is on the nodes %v, want three of five", name, at)
		}
	}
	return streams
}

// pair returns two nodes, and the logs that both of them keep: those without a majority when both are stopped. It
// prefers two that keep the log of the queues and no other one.
func (c fiveNodes) pair() (pair [2]int, lost []string) {
	c.t.Helper()
	streams := c.servers()
	best := -1
	for a := range 5 {
		for b := range a {
			var both []string
			for _, name := range []string{"queues", "tables", "blobs"} {
				if at := streams["LAZULI_LOG_"+name]; slices.Contains(at, a) && slices.Contains(at, b) {
					both = append(both, name)
				}
			}
			score := 0
			if len(both) > 0 {
				score = 10 - len(both)
				if both[0] == "queues" {
					score += 10
				}
			}
			if score > best {
				best, pair, lost = score, [2]int{a, b}, both
			}
		}
	}
	return pair, lost
}

// serve checks that all nodes that run serve tables, blobs and queues, but those without a majority, and that each of
// them sees at once what another one has written. when names what is written.
func (c fiveNodes) serve(when string, without ...string) {
	c.t.Helper()
	ctx := c.t.Context()
	content := random(1, 100<<10) // more than what is in the log
	others := func(see func(j int)) {
		for j, n := range c.nodes {
			if n != nil {
				see(j)
			}
		}
	}
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		name := fmt.Sprint(when, "-", i)
		if !slices.Contains(without, "tables") {
			_, err := c.table(i).AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, name), nil)
			if err != nil && !bloberror.HasCode(err, "EntityAlreadyExists") { // after an attempt with an unknown outcome
				c.t.Fatalf("%s: node %d does not insert an entity: %v", when, i, err)
			}
			others(func(j int) {
				if _, err := c.table(j).GetEntity(ctx, "p", name, nil); err != nil {
					c.t.Errorf("%s: node %d does not read an entity that node %d has acknowledged: %v", when, j, i, err)
				}
			})
		}
		if !slices.Contains(without, "blobs") {
			if _, err := c.blobs(i).UploadBuffer(ctx, "box", name, content, nil); err != nil {
				c.t.Fatalf("%s: node %d does not store a blob: %v", when, i, err)
			}
			others(func(j int) {
				got := make([]byte, len(content))
				if _, err := c.blobs(j).DownloadBuffer(ctx, "box", name, got, nil); err != nil || !bytes.Equal(got, content) {
					c.t.Errorf("%s: node %d does not read a blob that node %d has acknowledged: %v", when, j, i, err)
				}
			})
		}
		if !slices.Contains(without, "queues") {
			if _, err := c.queue(i, "orders", patient).EnqueueMessage(ctx, name, nil); err != nil {
				c.t.Fatalf("%s: node %d does not put a message: %v", when, i, err)
			}
			other := i // the next node
			for other = (other + 1) % 5; c.nodes[other] == nil; other = (other + 1) % 5 {
			}
			c.receive(when, other, "orders", name)
		}
	}
}

// receive checks that a node receives a message, and deletes it. What has an unknown outcome on a busy machine is
// repeated: an earlier message may be there twice, and a receive that failed may have hidden the message for its
// visibility timeout. Without such a failure the message is there at once.
func (c fiveNodes) receive(when string, node int, queue, want string) {
	c.t.Helper()
	attempt, q := c.queue(node, queue, once), c.queue(node, queue, patient)
	failed := false
	check.Eventually(c.t, func() bool {
		got, err := attempt.DequeueMessage(c.t.Context(), nil)
		if err != nil {
			if status, code := codeOf(err); status > 0 && status < http.StatusInternalServerError {
				c.t.Fatalf("%s: node %d receives nothing of %s: %d %s", when, node, queue, status, code)
			}
			failed = true
			return false
		}
		if len(got.Messages) == 0 && !failed {
			c.t.Fatalf("%s: node %d receives nothing of %s, want %q", when, node, queue, want)
		}
		found := false
		for _, m := range got.Messages {
			_, err := q.DeleteMessage(c.t.Context(), *m.MessageID, *m.PopReceipt, nil)
			if !bloberror.HasCode(err, "MessageNotFound") { // by an attempt with an unknown outcome
				check.OK(c.t, err)
			}
			found = found || *m.MessageText == want
		}
		return found
	}, "%s: node %d receives %q of %s", when, node, want, queue)
}

func (c fiveNodes) table(node int) *aztables.Client {
	c.t.Helper()
	s := check.Must(aztables.NewServiceClientFromConnectionString(c.nodes[node].ConnectionString(),
		&aztables.ClientOptions{ClientOptions: patient}))(c.t)
	return s.NewClient("people")
}

func (c fiveNodes) blobs(node int) *azblob.Client {
	c.t.Helper()
	return check.Must(azblob.NewClientFromConnectionString(c.nodes[node].ConnectionString(),
		&azblob.ClientOptions{ClientOptions: patient}))(c.t)
}

// Each log is on three of five nodes. All nodes serve all of them, also those that have none of it, while any one node
// is gone. While two are gone, a service whose log has both answers 503, and the others serve.
func TestFiveNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	c := fiveNodes{newTestCluster(t, 5)}
	c.start(0, 1, 2, 3, 4)
	madeBy(c.table(0).CreateTable(t.Context(), nil))(t)
	madeBy(c.blobs(0).CreateContainer(t.Context(), "box", nil))(t)
	check.Must(c.queue(0, "orders", patient).Create(t.Context(), nil))(t)
	pair, lost := c.pair()
	t.Logf("the nodes of the streams are %v", c.servers())
	c.serve("five")
	t.Logf("stopping node %d", pair[0])
	c.stop(pair[0])
	c.serve("four")
	first := slices.IndexFunc(c.nodes, func(n *Server) bool { return n != nil })
	check.Must(c.queue(first, "kept", patient).Create(t.Context(), nil))(t)
	check.Must(c.queue(first, "kept", patient).EnqueueMessage(t.Context(), "kept", nil))(t)
	t.Logf("stopping node %d: %v lose their majority", pair[1], lost)
	c.stop(pair[1])
	c.serve("three", lost...)
	// Each request waits for a majority for some seconds. One that is refused may have an effect later.
	var requests sync.WaitGroup
	second := &azqueue.DequeueMessageOptions{VisibilityTimeout: new(int32(1))}
	for i, n := range c.nodes {
		if n == nil || !slices.Contains(lost, "queues") {
			continue
		}
		q := c.queue(i, "orders", once)
		requests.Go(func() {
			_, err := q.EnqueueMessage(t.Context(), "refused", nil)
			check.Code(t, err, "503 ServerBusy")
		})
		requests.Go(func() {
			_, err := q.DequeueMessage(t.Context(), second)
			check.Code(t, err, "503 ServerBusy")
		})
		requests.Go(func() {
			_, err := q.PeekMessage(t.Context(), nil)
			check.Code(t, err, "503 ServerBusy")
		})
	}
	requests.Wait()
	c.start(pair[1])
	q := c.queue(pair[1], "kept", patient)
	check.Eventually(t, func() bool {
		got, err := q.DequeueMessage(t.Context(), second)
		return err == nil && len(got.Messages) == 1 && *got.Messages[0].MessageText == "kept"
	}, "a message that was acknowledged is lost")
}

// TestNamesOfNewNodes adds two names to the peers of a cluster of three, one node after the other. While the third one
// is stopped for that, the other two have a majority: the new nodes count when they have joined.
func TestNamesOfNewNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newTestCluster(t, 3)
	c.start(0, 1, 2)
	newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries).fill(t, "three")
	peers := slices.Clone(c.configs[0].Cluster.Peers)
	for _, name := range []string{"n3", "n4"} {
		peers = append(peers, peering.Peer{Name: name, Address: check.FreeAddress(t)})
	}
	for i := range 2 {
		c.stop(i)
		cluster := *c.configs[i].Cluster
		cluster.Peers = peers
		c.configs[i].Cluster = &cluster
		c.start(i)
		wantEventually(t, "the node is ready", func() bool { return c.nodes[i].Ready() == nil })
	}
	c.stop(2)
	for i := range 2 {
		wantEventually(t, "the node is ready without the third one", func() bool { return c.nodes[i].Ready() == nil })
		x := newTenantWith(t, c.nodes[i].ConnectionString(), patientRetries)
		x.fill(t, fmt.Sprint("two", i))
		large := bytes.Repeat([]byte("x"), 100_000) // too long for the log: a majority must have it in extents
		check.Must(x.blobs.UploadBuffer(t.Context(), fmt.Sprint("two", i), "large", large, nil))(t)
	}
}
