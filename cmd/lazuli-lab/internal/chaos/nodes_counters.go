package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// counters is the number of resources of a service that count.
const counters = 4

// errOtherBytes means that a resource has content that no value has.
var errOtherBytes = errors.New("has content that was never written to it")

// counterStore has the counters of one service, which are read and written through any node.
type counterStore interface {
	// get returns a counter's value. errOtherBytes, wrapped, if the content is no value's.
	get(ctx context.Context, node, key int) (n int64, etag azcore.ETag, err error)
	// set replaces a counter that has an ETag.
	set(ctx context.Context, node, key int, n int64, etag azcore.ETag) error
}

// sharedCounters has resources that all clients increment, each time on condition of the ETag that they have read,
// through all nodes. Increments of a resource form a chain, so that its history is linearizable if each value has one
// writer, and no read returns less than what was acknowledged before the read began.
type sharedCounters struct {
	counterStore
	noun  string // what a resource is called in findings
	nodes int
	think time.Duration // limit of the pause after an increment

	outcomes
	// What follows is guarded by outcomes.mu.
	written [counters]map[int64]bool // the values whose write was acknowledged
	highest [counters]int64          // the highest value that was acknowledged or read
	writes  int64                    // acknowledged requests
	reads   int64
}

func newSharedCounters(store counterStore, noun string, nodes int, think time.Duration) *sharedCounters {
	c := &sharedCounters{counterStore: store, noun: noun, nodes: nodes, think: think}
	for key := range c.written {
		c.written[key] = map[int64]bool{}
	}
	return c
}

// increment reads and increments counters until ctx is done.
func (c *sharedCounters) increment(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		key := rnd.IntN(counters)
		n, etag, ok := c.read(context.WithoutCancel(ctx), rnd.IntN(c.nodes), key)
		if !ok {
			pause(ctx, 2*c.think)
			continue
		}
		c.write(context.WithoutCancel(ctx), rnd.IntN(c.nodes), key, n+1, etag)
		pause(ctx, time.Duration(rnd.Int64N(int64(c.think))))
	}
}

// read reads a counter, and checks its content, and that it is not older than what was known before.
func (c *sharedCounters) read(ctx context.Context, node, key int) (n int64, etag azcore.ETag, ok bool) {
	c.mu.Lock()
	known := c.highest[key]
	c.mu.Unlock()
	n, etag, err := c.get(ctx, node, key)
	other := errors.Is(err, errOtherBytes)
	if other {
		c.mu.Lock()
		c.found(Wrong, "%s %d %v", c.noun, key, err)
		c.mu.Unlock()
	}
	if other || !c.answered(err, &c.reads) {
		return 0, "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < known {
		c.found(Stale, "%s %d was read as %d, and was %d before the request", c.noun, key, n, known)
	}
	c.highest[key] = max(c.highest[key], n)
	return n, etag, true
}

// write replaces a counter that has an ETag.
func (c *sharedCounters) write(ctx context.Context, node, key int, n int64, etag azcore.ETag) {
	err := c.set(ctx, node, key, n, etag)
	if status(err) == http.StatusPreconditionFailed {
		return // another client was first
	}
	if !c.answered(err, &c.writes) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[key][n] {
		c.found(Doubled, "two clients wrote %d to %s %d on condition of the value before it", n, c.noun, key)
	}
	c.written[key][n] = true
	c.highest[key] = max(c.highest[key], n)
}

// last reads all counters through all nodes. A value below an acknowledged one is lost.
func (c *sharedCounters) last(ctx context.Context) {
	for node := range c.nodes {
		for key := range counters {
			var ok bool
			_ = wait(ctx, drainPatience, func() (bool, error) {
				_, _, ok = c.read(ctx, node, key)
				return ok, nil
			})
			if !ok && ctx.Err() == nil {
				c.mu.Lock()
				c.found(Lost, "%s %d cannot be read through node %d", c.noun, key, node+1)
				c.mu.Unlock()
			}
		}
	}
}

// fill copies the numbers to the report.
func (c *sharedCounters) fill(r *NodesReport, writes, reads *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*writes, *reads = c.writes, c.reads
	c.add(r, c.noun)
}
