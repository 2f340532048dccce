package crashtest

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

var (
	kills = flag.Int("kills", check.Size(2, 4), "number of times that the process is killed; .ci/run uses more")
	seed  = flag.Uint64("seed", 0, "seed of the random choices; 0 takes the time")
	keep  = flag.String("keep", "", "folder for the data, which is then left there")
)

const (
	// enough is the number of operations that a server must have done before it is killed.
	enough = 50
	// patience is the time limit of waits. It is long, for busy machines.
	patience = 2 * time.Minute
)

// worker writes to one service and records what was acknowledged. One goroutine calls it at a time.
type worker interface {
	// connect makes the worker use a server that has just started.
	connect(s *server) error
	// step does one operation and waits for its answer.
	step(ctx context.Context, rnd *rand.Rand) error
	// verify compares the content of the server with the ledger. final is set for the last call.
	verify(ctx context.Context, final bool) error
	// acknowledged returns the number of operations that the server has acknowledged.
	acknowledged() int
}

func TestKill(t *testing.T) {
	t.Parallel()
	var workers []worker
	for i := range 3 {
		workers = append(workers, newTableWorker(i), newBlobWorker(i), newQueueWorker(i))
	}
	killAgainAndAgain(t, *kills, workers)
}

// Versions of blobs, and containers that are deleted and restored.
func TestKillHistory(t *testing.T) {
	t.Parallel()
	var workers []worker
	for i := range 4 {
		workers = append(workers, newHistoryWorker(i))
	}
	killAgainAndAgain(t, (*kills+1)/2, workers, "--blob-versioning", "--container-soft-delete-days", "1")
}

// chosenSeed is the seed that the flag sets, or one for all tests of this run.
var chosenSeed = sync.OnceValue(func() uint64 {
	if *seed != 0 {
		return *seed
	}
	return uint64(time.Now().UnixNano())
})

// killAgainAndAgain runs a server with flags n times under load, and kills it each time except the last.
func killAgainAndAgain(t *testing.T, n int, workers []worker, flags ...string) {
	t.Helper()
	seed := chosenSeed()
	if testing.Short() {
		n = min(n, 3)
	}
	t.Logf("seed %d, %d kills", seed, n)
	rnd := rand.New(rand.NewPCG(seed, 0))
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	if *keep != "" {
		data = filepath.Join(*keep, t.Name())
	}
	var slowest, fsckTime time.Duration
	for kill := range n {
		s := start(t, binary, data, flags...)
		slowest = max(slowest, s.Took)
		connectAll(t, s, workers)
		if kill > 0 {
			verifyAll(t, workers, false)
		}
		if t.Failed() {
			t.Fatalf("after kill %d of seed %d", kill, seed)
		}
		load := time.Duration(100+rnd.IntN(900)) * time.Millisecond
		runAll(t, s, workers, load, rnd)
		fsckTime += fsckClean(t, data)
	}
	s := start(t, binary, data, flags...)
	connectAll(t, s, workers)
	verifyAll(t, workers, true)
	s.terminate(t)
	fsckClean(t, data)
	total := 0
	for _, w := range workers {
		total += w.acknowledged()
	}
	t.Logf("%d operations were acknowledged; slowest start %v, fsck %v on average", total, slowest,
		fsckTime/time.Duration(n))
}

func connectAll(t *testing.T, s *server, workers []worker) {
	t.Helper()
	for _, w := range workers {
		if err := w.connect(s); err != nil {
			t.Fatal(err)
		}
	}
}

// runAll runs all workers, kills the server after a random time in which enough operations were done, and waits until
// all workers have stopped.
func runAll(t *testing.T, s *server, workers []worker, load time.Duration, rnd *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), load+2*patience)
	defer cancel()
	var done atomic.Int64
	fulfilled := make(chan struct{})
	var killed sync.WaitGroup
	killed.Go(func() {
		timer := time.NewTimer(load) // the kill must come at a random time
		defer timer.Stop()
		<-timer.C
		select {
		case <-fulfilled:
		case <-time.After(patience):
			t.Errorf("%d operations in %v are too few for a test", done.Load(), patience)
		}
		s.kill(t)
	})
	var wg sync.WaitGroup
	for _, w := range workers {
		r := rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))
		wg.Go(func() {
			for {
				err := w.step(ctx, r)
				if refused(err) {
					t.Errorf("the server refused: %v", err)
				}
				if err != nil {
					return
				}
				if done.Add(1) == enough {
					close(fulfilled)
				}
			}
		})
	}
	wg.Wait()
	killed.Wait()
	if ctx.Err() != nil {
		t.Error("workers hang")
	}
}

// refused distinguishes an answer of the server from a broken connection.
func refused(err error) bool {
	return errors.As(err, new(*azcore.ResponseError)) || errors.As(err, new(*mismatch))
}

func verifyAll(t *testing.T, workers []worker, final bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			if err := w.verify(ctx, final); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func fsckClean(t *testing.T, data string) time.Duration {
	t.Helper()
	r, err := fsck.Check(t.Context(), data, fsck.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Clean {
		_ = r.WriteText(os.Stderr)
		t.Error("fsck found errors")
	}
	return r.Took
}
