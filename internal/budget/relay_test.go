package budget

import (
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// turnsUntilRead calls next in a loop on the only processor, with some work before each call. It returns the number of
// calls until a goroutine has run whose pipe could be read from the beginning.
func turnsUntilRead(t *testing.T, next func()) (turns int64) {
	t.Helper()
	in, out, err := os.Pipe()
	check.OK(t, err)
	defer in.Close()
	defer out.Close()
	var taken, read atomic.Int64
	waits := make(chan struct{})
	go func() {
		close(waits)
		if _, err := in.Read(make([]byte, 1)); err == nil {
			read.Store(taken.Load() + 1)
		}
	}()
	<-waits
	runtime.Gosched() // it waits for the pipe
	_, err = out.Write([]byte{1})
	check.OK(t, err)
	for read.Load() == 0 && taken.Load() < 1000 {
		for at := time.Now(); time.Since(at) < 20*time.Microsecond; {
		}
		next()
		taken.Add(1)
	}
	return taken.Load()
}

// While requests hand the only processor on to each other, one that comes by the network runs behind a few of their
// turns. The runtime alone would ask the network after 10 ms, which is hundreds of these turns.
func TestNetworkGoesBetweenTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	turns := newTurns(1)
	check.OK(t, turns.take(t.Context(), "noisy"))
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for err := turns.take(t.Context(), "noisy"); ; err = turns.take(t.Context(), "noisy") {
			turns.give()
			select {
			case <-stop:
				ended <- err
				return
			default:
			}
		}
	}()
	turns.waitFor(t, 1)
	if n := turnsUntilRead(t, func() {
		turns.give()
		check.OK(t, turns.take(t.Context(), "noisy"))
	}); n > 10 {
		t.Errorf("a connection is read after %d turns", n)
	}
	close(stop)
	turns.give()
	check.OK(t, <-ended)
}

// A request that goes on with its turn lets the network in after each step, before the next one. The collector or the
// runtime's own thread may come between once.
func TestNetworkGoesBetweenSteps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	least, most := int64(math.MaxInt64), int64(0)
	for range 10 {
		n := turnsUntilRead(t, network.yield)
		least, most = min(least, n), max(most, n)
	}
	if least > 1 || most > 10 {
		t.Errorf("a connection is read after %d to %d steps", least, most)
	}
}
