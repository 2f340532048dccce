package convert

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/cli/fsck"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/peering"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

var quiet = slog.New(slog.DiscardHandler)

// startNodes starts the nodes of a cluster in this process, on folders.
func startNodes(t *testing.T, folders []string, peers []peering.Peer) []*server.Stack {
	t.Helper()
	nodes := make([]*server.Stack, len(folders))
	var start sync.WaitGroup
	for i, folder := range folders {
		start.Go(func() {
			s, err := server.StartContext(t.Context(), server.Config{Location: folder, Accounts: accounts(t), Log: quiet,
				Cluster: &peering.Config{Node: peers[i].Name, Listen: peers[i].Address, Peers: peers}})
			if err != nil {
				t.Errorf("node %s: %v", peers[i].Name, err)
			}
			nodes[i] = s
		})
	}
	start.Wait()
	t.Cleanup(func() { stopNodes(nodes) })
	if t.Failed() {
		t.FailNow()
	}
	return nodes
}

func stopNodes(nodes []*server.Stack) {
	var stop sync.WaitGroup
	for _, s := range nodes {
		if s != nil {
			stop.Go(func() { _ = s.Stop(context.Background()) })
		}
	}
	stop.Wait()
}

func freePeers(t *testing.T) (peers []peering.Peer) {
	for i := range 3 {
		peers = append(peers, peering.Peer{Name: fmt.Sprint("n", i+1), Address: check.FreeAddress(t)})
	}
	return peers
}

// wantClean fails if the check of a folder finds anything.
func wantClean(t *testing.T, folder string) {
	t.Helper()
	r := check.Must(fsck.Check(t.Context(), folder, fsck.Options{}))(t)
	for _, f := range r.Findings {
		t.Errorf("fsck of %s: %v", folder, f)
	}
}

func TestConvert(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	var was string
	var got received
	alone(t, folder, func(a account) {
		got = fill(t, a)
		was = describe(t, a)
	})
	peers := freePeers(t)
	id := check.Must(ToNode(t.Context(), folder, Options{Node: "n2", Log: quiet}))(t)
	if !id.Seed || !peering.Converted(id.Cluster) || id.Node != "n2" {
		t.Errorf("the identity is %+v", id)
	}
	wantClean(t, folder)

	// n2 has the data; n1 would found the cluster without it.
	nodes := startNodes(t, []string{t.TempDir(), folder, t.TempDir()}, peers)
	for i, s := range nodes {
		compare(t, peers[i].Name, describe(t, open(t, s.ConnectionString())), was)
	}
	if left, err := os.Stat(filepath.Join(folder, "queues")); err == nil {
		t.Errorf("the folder still has %s", left.Name())
	}
	a := open(t, nodes[2].ConnectionString())
	updated := check.Must(a.queues.NewQueueClient("orders").UpdateMessage(t.Context(), got.id, got.receipt, "changed", &azqueue.UpdateMessageOptions{}))(t)
	check.Must(open(t, nodes[0].ConnectionString()).queues.NewQueueClient("orders").DeleteMessage(t.Context(), got.id, *updated.PopReceipt, nil))(t)
	stopNodes(nodes)
	wantClean(t, folder)
}
