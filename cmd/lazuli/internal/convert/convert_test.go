package convert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

var quiet = slog.New(slog.DiscardHandler)

// startNodes starts the nodes of a cluster in this process, on folders.
func startNodes(t *testing.T, folders []string, peers []peering.Peer) []*server.Server {
	t.Helper()
	return startNodesWith(t, folders, peers,
		func(folder string) server.Config {
			return server.Config{Location: folder, Accounts: accounts(t), Log: quiet}
		})
}

// startNodesWith is startNodes with other settings.
func startNodesWith(t *testing.T, folders []string, peers []peering.Peer,
	config func(folder string) server.Config) []*server.Server {
	t.Helper()
	nodes := make([]*server.Server, len(folders))
	var start sync.WaitGroup
	for i, folder := range folders {
		start.Go(func() { nodes[i] = startNodeWith(t, config(folder), peers, i) })
	}
	start.Wait()
	t.Cleanup(func() { stopNodes(nodes) })
	if t.Failed() {
		t.FailNow()
	}
	return nodes
}

// startNode starts one of the nodes. It may be called by any goroutine.
func startNode(t *testing.T, folder string, peers []peering.Peer, i int) *server.Server {
	return startNodeWith(t, server.Config{Location: folder, Accounts: accounts(t), Log: quiet}, peers, i)
}

func startNodeWith(t *testing.T, c server.Config, peers []peering.Peer, i int) *server.Server {
	c.Cluster = &peering.Config{Node: peers[i].Name, Listen: peers[i].Address, Peers: peers}
	s, err := server.StartContext(t.Context(), c)
	if err != nil {
		t.Errorf("node %s: %v", peers[i].Name, err)
	}
	return s
}

func stopNodes(nodes []*server.Server) {
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
	back := backUp(t, nodes[2])
	a := open(t, nodes[2].ConnectionString())
	updated := check.Must(a.queues.NewQueueClient("orders").UpdateMessage(t.Context(), got.id, got.receipt, "changed",
		&azqueue.UpdateMessageOptions{}))(t)
	check.Must(open(t, nodes[0].ConnectionString()).queues.NewQueueClient("orders").DeleteMessage(t.Context(), got.id,
		*updated.PopReceipt, nil))(t)
	stopNodes(nodes)
	wantClean(t, folder)
	if err := Undo(folder); !errors.Is(err, ErrBegun) {
		t.Errorf("undoing the conversion of a cluster that serves: %v", err)
	}

	// The way back.
	wantClean(t, back)
	alone(t, back, func(a account) {
		compare(t, "the folder for a single server", describe(t, a), was)
		check.Must(a.queues.NewQueueClient("orders").DeleteMessage(t.Context(), got.id, got.receipt, nil))(t)
	})
	wantClean(t, back)
	check.Must(ToNode(t.Context(), back, Options{Node: "n1", Log: quiet}))(t)
}

// The node with the data is killed after each step. The others do not serve before it has put everything into the
// cluster.
func TestConversionSurvivesKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	var was string
	alone(t, folder, func(a account) {
		fill(t, a)
		was = describe(t, a)
	})
	check.Must(ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}))(t)
	peers := freePeers(t)
	var others [2]atomic.Pointer[server.Server]
	var start sync.WaitGroup
	for i := range others {
		dir := t.TempDir()
		start.Go(func() { others[i].Store(startNode(t, dir, peers, i+1)) })
	}
	c := child{Folder: folder, Node: peers[0], Peers: peers}
	for _, step := range []string{"begun", "tables", "blobs", "queues", "done", "removed"} {
		c.dieAt(t, "conversion/"+step)
		if step == "done" {
			start.Wait() // they have everything
		}
		for i := range others {
			if others[i].Load() != nil && step != "done" && step != "removed" {
				t.Errorf("a node is ready after the other one died at %s", step)
			}
		}
	}
	nodes := []*server.Server{startNode(t, folder, peers, 0), others[0].Load(), others[1].Load()}
	t.Cleanup(func() { stopNodes(nodes) })
	for i, s := range nodes {
		compare(t, peers[i].Name, describe(t, open(t, s.ConnectionString())), was)
	}
	back := backUp(t, nodes[0]) // the way back
	stopNodes(nodes[1:])
	check.Eventually(t, func() bool { return nodes[0].Ready() != nil }, "the node is ready without the others")
	if _, err := nodes[0].Moment(t.Context()); !errors.Is(err, server.ErrNotReady) {
		t.Errorf("without the other nodes: %v", err)
	}
	stopNodes(nodes[:1])
	alone(t, back, func(a account) { compare(t, "the folder for a single server", describe(t, a), was) })
}

// backUp backs up a cluster through a node, and returns the folder for a single server that is restored from it.
func backUp(t *testing.T, node *server.Server) string {
	t.Helper()
	place := backup.Folder(filepath.Join(t.TempDir(), "backups"))
	var made backup.Result
	check.Eventually(t, func() bool { // A node of a busy machine is not ready at any time.
		var err error
		made, err = backup.Make(t.Context(), place, func(ctx context.Context, _ backup.Held) (backup.Source, error) {
			return node.Moment(ctx)
		}, backup.Options{})
		again := errors.Is(err, server.ErrNotReady) || errors.Is(err, store.ErrUnavailable)
		if err != nil && !again {
			t.Fatal(err)
		}
		return err == nil
	}, "a backup is made")
	folder := filepath.Join(t.TempDir(), "restored")
	check.OK(t, backup.Restore(t.Context(), place, check.Must(backup.Read(t.Context(), place, made.Name))(t), folder,
		backup.RestoreOptions{Verify: func(context.Context, string) error { return nil }})) // the tests check it
	return folder
}

// What cannot be converted stays as it is.
func TestToNodeRefuses(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	var was string
	alone(t, folder, func(a account) {
		fill(t, a)
		was = describe(t, a)
		if _, err := ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}); !errors.Is(err, datadir.ErrLocked) {
			t.Errorf("a folder in use: %v", err)
		}
	})
	if _, err := ToNode(t.Context(), filepath.Join(folder, "missing"), Options{Node: "n1", Log: quiet}); !errors.Is(err,
		datadir.ErrNotFound) {
		t.Errorf("a folder without data: %v", err)
	}
	if _, err := ToNode(t.Context(), folder, Options{Node: "No 1", Log: quiet}); err == nil ||
		!strings.Contains(err.Error(), "lower-case letters") {
		t.Errorf("a wrong name: %v", err)
	}
	if err := Undo(folder); err == nil || !strings.Contains(err.Error(), "not the folder of a node") {
		t.Errorf("undoing nothing: %v", err)
	}

	// A flipped bit in an extent.
	extents := check.Must(filepath.Glob(filepath.Join(folder, "extents", "*.extent")))(t)
	flip := func() {
		data := check.Must(os.ReadFile(extents[0]))(t)
		data[len(data)/2] ^= 1
		check.OK(t, os.WriteFile(extents[0], data, 0o600))
	}
	flip()
	if _, err := ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "lazuli fsck --repair") {
		t.Errorf("a damaged folder: %v", err)
	}
	flip()

	check.Must(ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}))(t)
	if _, err := ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}); !errors.Is(err, ErrNode) {
		t.Errorf("a second conversion: %v", err)
	}
	if s, err := server.Start(server.Config{Location: folder, Log: quiet}); err == nil ||
		!strings.Contains(err.Error(), "lazuli cluster convert --undo") {
		t.Errorf("a single server on a converted folder: %v, %v", s, err)
	}
	check.OK(t, Undo(folder))
	alone(t, folder, func(a account) { compare(t, "the folder", describe(t, a), was) })
}

// Two nodes cannot both bring the data of the cluster: neither is accepted by the other one.
func TestTwoConvertedNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	peers := freePeers(t)
	folders := []string{filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data"), t.TempDir()}
	for i := range 2 {
		alone(t, folders[i], func(account) {})
		check.Must(ToNode(t.Context(), folders[i], Options{Node: peers[i].Name, Log: quiet}))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reasons [2]atomic.Bool
	var nodes sync.WaitGroup
	for i, folder := range folders {
		nodes.Go(func() {
			s, err := server.StartContext(ctx, server.Config{Location: folder, Log: quiet,
				Cluster: &peering.Config{Node: peers[i].Name, Listen: peers[i].Address, Peers: peers},
				Waiting: func(reason string) {
					if i < 2 && strings.Contains(reason, "belongs to cluster") {
						reasons[i].Store(true)
					}
				}})
			if err == nil {
				t.Errorf("node %s serves", peers[i].Name)
				_ = s.Stop(context.Background())
			}
		})
	}
	check.Eventually(t, func() bool { return reasons[0].Load() && reasons[1].Load() }, "a reason at both nodes")
	cancel()
	nodes.Wait()
	for i := range 2 {
		check.OK(t, Undo(folders[i]))
	}
}
