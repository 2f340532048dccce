package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// startNodes starts three nodes of a cluster in this process. jump sets their clocks forward.
func startNodes(t *testing.T) (nodes [3]*Server, jump func(time.Duration)) {
	t.Helper()
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	c := newTestCluster(t, len(nodes))
	for i := range c.configs {
		c.configs[i].Now, c.configs[i].ClientsNow, c.configs[i].Events = now, time.Now, true
	}
	c.start(0, 1, 2)
	return [3]*Server(c.nodes), func(d time.Duration) { offset.Add(int64(d)) }
}

// testCluster is a cluster of nodes in this process.
type testCluster struct {
	t       testing.TB
	configs []Config
	nodes   []*Server // nil while they are stopped
}

// newTestCluster returns a cluster of n nodes that were not started. They are stopped at the end of the test.
func newTestCluster(t testing.TB, n int) *testCluster {
	t.Helper()
	c := &testCluster{t: t, nodes: make([]*Server, n)}
	var peers []peering.Peer
	for i := range n {
		peers = append(peers, peering.Peer{Name: fmt.Sprint("n", i), Address: check.FreeAddress(t)})
	}
	for _, p := range peers {
		c.configs = append(c.configs, Config{Location: t.TempDir(), Accounts: auth.Development(),
			Log:     slog.New(slog.DiscardHandler),
			Cluster: &peering.Config{Node: p.Name, Listen: p.Address, Peers: peers}})
	}
	t.Cleanup(func() {
		var stop sync.WaitGroup // one after the other, the last ones would wait for a majority
		for i := range c.nodes {
			stop.Go(func() { c.stop(i) })
		}
		stop.Wait()
	})
	return c
}

// start starts nodes at the same time: they wait for each other.
func (c *testCluster) start(nodes ...int) {
	c.t.Helper()
	var start sync.WaitGroup
	for _, i := range nodes {
		start.Go(func() {
			s, err := StartContext(c.t.Context(), c.configs[i])
			if err != nil {
				c.t.Error(err)
				return
			}
			c.nodes[i] = s
		})
	}
	start.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *testCluster) stop(i int) {
	if s := c.nodes[i]; s != nil {
		_ = s.Stop(context.Background())
		c.nodes[i] = nil
	}
}

// flipBit inverts a bit before each place where a file has the text.
func flipBit(t *testing.T, path string, text []byte) {
	t.Helper()
	data := check.Must(os.ReadFile(path))(t)
	f := check.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	defer f.Close()
	n := 0
	for at := 0; ; n++ {
		i := bytes.Index(data[at:], text)
		if i < 0 {
			break
		}
		at += i
		check.Must(f.WriteAt([]byte{data[at] ^ 1}, int64(at)))(t)
		at += len(text)
	}
	if n == 0 {
		t.Fatalf("%s does not have %q", path, text)
	}
}

func TestNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	nodes, jump := startNodes(t)
	t.Run("share blobs", func(t *testing.T) { testNodesShareBlobs(t, nodes) })
	t.Run("join again after they diverged", func(t *testing.T) { testNodeThatDivergedJoinsAgain(t, nodes) })
	t.Run("deliver events", func(t *testing.T) { testNodesDeliverEvents(t, nodes, jump) })
}

// A node whose history differs from the cluster's keeps its file under another name, and joins again while the other
// nodes serve.
func testNodeThatDivergedJoinsAgain(t *testing.T, nodes [3]*Server) {
	table := func(i int) *aztables.Client {
		s := check.Must(aztables.NewServiceClientFromConnectionString(nodes[i].ConnectionString(), &aztables.ClientOptions{
			ClientOptions: policy.ClientOptions{Retry: patientRetries}}))(t)
		return s.NewClient("people")
	}
	insert := func(i int, row string) {
		t.Helper()
		_, err := table(i).AddEntity(t.Context(), fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, row), nil)
		made(t, err)
	}
	_, err := table(0).CreateTable(t.Context(), nil)
	made(t, err)
	insert(0, "before")

	done := make(chan error, 1)
	go func() { done <- nodes[0].rejoin(t.Context(), map[string]error{"tables": replog.ErrDiverged}) }()
	insert(1, "meanwhile")
	check.OK(t, <-done)
	insert(0, "after")
	for i := range nodes {
		for _, row := range []string{"before", "meanwhile", "after"} {
			_, err := table(i).GetEntity(t.Context(), "p", row, nil)
			check.OK(t, err)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(nodes[0].Path(), "tables.db.diverged-*")); len(kept) != 1 {
		t.Errorf("kept files: %q", kept)
	}
	check.OK(t, nodes[0].Ready())

	// A bit of the node's file flips. The read that finds it fails, and the node joins again by itself.
	// writes everything to the file
	check.OK(t, nodes[0].rejoin(t.Context(), map[string]error{"tables": replog.ErrPurged}))
	flipBit(t, filepath.Join(nodes[0].Path(), "tables.db"), []byte("meanwhile"))
	_, err = table(0).GetEntity(t.Context(), "p", "meanwhile", nil)
	check.OK(t, err) // after retries
	if kept, _ := filepath.Glob(filepath.Join(nodes[0].Path(), "tables.db.damaged-*")); len(kept) != 1 {
		t.Errorf("kept damaged files: %q", kept)
	}
}
