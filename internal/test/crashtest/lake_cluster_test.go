package crashtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Trees in a cluster of three nodes, of which each is killed once under load, the leader among them: the operations of
// TestKillLake and TestKillLakeCrossing, through all nodes. Without LAZULI_TEST_FULL, a single node is killed.
func TestKillLakeNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cluster, err := killrig.StartCluster(t.Context(), folder, 3, func(args ...string) *exec.Cmd {
		return exec.Command(binary, append(args, "--hierarchical-namespace", "--dfs-port", "0")...)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	settings, err := connstr.Parse(cluster.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{blob: settings.BlobEndpoint,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	var workers []worker
	for i := range 3 {
		workers = append(workers, &lakeWorker{name: fmt.Sprint("w", i), tree: lakeTree{}},
			&crossWorker{name: fmt.Sprint("c", i)})
	}
	connectAll(t, s, workers)
	seed := chosenSeed()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, i := range rnd.Perm(len(cluster.Nodes))[:check.Size(1, 3)] {
		n := cluster.Nodes[i]
		load(t, workers, rnd, func(await func(more int64)) {
			await(enough)
			n.Kill()
			if err := n.Start(); err != nil {
				t.Error(err)
				return
			}
			if err := cluster.Whole(t.Context()); err != nil {
				t.Error(err)
			}
		})
		verifyAll(t, workers, false)
		if t.Failed() {
			t.Fatalf("after the kill of %s", n.Name)
		}
	}
	total := 0
	for _, w := range workers {
		total += w.acknowledged()
	}
	t.Logf("%d operations were acknowledged", total)
	for _, n := range cluster.Nodes {
		if err := n.Terminate(); err != nil {
			t.Error(err)
		}
		fsckClean(t, filepath.Join(folder, n.Name))
	}
}

// load runs the workers while during does something; await waits until a number of further operations is done. A worker
// whose operation has no answer stops, since it may still happen until the cluster is whole again. When all have
// stopped, await waits no longer: on a slow machine a leader can be lost without a kill.
func load(t *testing.T, workers []worker, rnd *rand.Rand, during func(await func(more int64))) {
	t.Helper()
	var done atomic.Int64
	var stop atomic.Bool
	changed, stopped := make(chan struct{}, 1), make(chan struct{})
	var running sync.WaitGroup
	for _, w := range workers {
		r := rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))
		running.Go(func() {
			for !stop.Load() {
				err := w.step(t.Context(), r)
				if refused(err) {
					t.Errorf("the cluster refused: %v", err)
				}
				if err != nil {
					return
				}
				done.Add(1)
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		})
	}
	go func() {
		running.Wait()
		close(stopped)
	}()
	during(func(more int64) {
		for until := done.Load() + more; done.Load() < until; {
			select {
			case <-changed:
			case <-stopped:
				return
			}
		}
	})
	stop.Store(true)
	<-stopped
}
