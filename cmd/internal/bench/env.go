package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// env is the state that the workloads of one run share for one target: connections, names, and loaded data sets.
type env struct {
	ctx      context.Context
	target   *Target
	run      string // part of every resource name, unique per run
	seed     uint64
	preload  Preload
	conns    []*Conn
	progress func(format string, args ...any)
	loaded   func(what string, done, total int) // may be nil

	entities *entitySet
	messages *messageSet
	shallow  *messageSet
	batches  *messageSet
	blobs    *blobSet
	cleanups []func(*Conn) error
}

func newEnv(ctx context.Context, t *Target, cfg *Config, run string) *env {
	e := &env{ctx: ctx, target: t, run: run, seed: cfg.Seed, preload: cfg.Preload, progress: cfg.progress,
		loaded: cfg.Loaded}
	e.connect(cfg.Connections)
	return e
}

// connect makes n connections that end with the run.
func (e *env) connect(n int) {
	e.conns = nil
	for range n {
		c := newConn(e.target)
		c.done = e.ctx.Done()
		e.conns = append(e.conns, c)
	}
}

// onFloor is a view of e whose requests go to the floor: same names and data sets, other connections.
func (e *env) onFloor(t *Target) *env {
	f := *e
	f.target, f.cleanups = t, nil
	f.connect(len(e.conns))
	return &f
}

// rand is the i-th worker's source: the same on every target, so that all see the same keys.
func (e *env) rand(i int) *rand.Rand { return rand.New(rand.NewPCG(e.seed, uint64(i)+1)) }

// once sends a single request on the first connection.
func (e *env) once(r *Request) error {
	_, err := e.conns[0].Do(r)
	return err
}

// load calls do for 0 ≤ i < n on all connections at once and returns the first error. do gets a state made by state for
// each connection, since requests are not shared between them.
func load[S any](e *env, what string, n int, state func(conn int) S, do func(c *Conn, s S, i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	// One goroutine a connection, as in the measurement: the load of preparation is the one that the server is measured
	// with.
	for i, c := range e.conns {
		wg.Go(func() {
			s := state(i)
			for failed.Load() == nil && e.ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				// The first error stops all others at their next turn; CompareAndSwap keeps it against those that follow from
				// it.
				if err := do(c, s, i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				if e.loaded != nil {
					e.loaded(what, i+1, n)
				}
			}
		})
	}
	wg.Wait()
	// An interrupt is not a failure of the server.
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("loading %s into %s (%d of %d done): %w", what, e.target.Name, next.Load(), n, *err)
	}
	if d := time.Since(start); d > time.Second {
		e.progress("%s: loaded %d %s in %.1f s", e.target.Name, n, what, d.Seconds())
	}
	return nil
}

// onCleanup registers the removal of a resource.
func (e *env) onCleanup(r *Request) {
	e.cleanups = append(e.cleanups, func(c *Conn) error {
		_, err := c.Do(r)
		return err
	})
}

// close removes the resources of the run, unless the whole server is removed, and closes the connections.
func (e *env) close(remove bool) {
	if remove {
		c := newConn(e.target)
		for _, clean := range e.cleanups {
			if err := clean(c); err != nil {
				e.progress("%s: cleaning up: %v", e.target.Name, err)
			}
		}
		c.Close()
	}
	for _, c := range e.conns {
		c.Close()
	}
}

// blobSet is a container with the blobs that workloads read.
type blobSet struct {
	container string
	small     int // blobs named b000000… of smallBlob bytes
	large     int // blobs named large0… of largeBlob bytes
}

// messageSet is a queue held at a given depth.
type messageSet struct {
	queue string
	// taken counts the messages deleted since the depth was last restored.
	taken atomic.Int64
}

// entitySet is a table with n preloaded entities in partitions of partitionRows.
type entitySet struct {
	table string
	n     int
}
