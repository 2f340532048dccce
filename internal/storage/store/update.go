package store

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/gather"
)

const (
	// maxGroup is the maximum number of calls in one group.
	maxGroup = 1024
	// maxGroupBytes ends a group early, so that no call waits for a commit of unlimited size.
	maxGroupBytes = 32 << 20
)

// Update runs fn, which may read and write, and returns once its writes are durable. If fn returns an error, nothing is
// written and Update returns that error.
//
// fn may run several times, and may run in another goroutine: it must have no effects except on the transaction and on
// variables that it sets on each run. With Options.Log it runs again whenever another node has committed first; its
// last run counts. It sees the writes of earlier closures of its group although they are not yet on disk; therefore, if
// the commit fails, every closure of the group gets the error, also one that returned its own error. If fn panics,
// Update panics with a *Panic and nothing of fn is written. fn must not call View or Update of the same DB, and should
// not end its goroutine (runtime.Goexit, testing.T.FailNow).
//
// Errors: those of fn, ErrClosed, ErrReadOnly, ErrKey, ErrDamaged if fn read damaged bytes, ErrFailed, ErrUnavailable
// and ErrUnknown, or an error of the operating system. Nothing has been written then, unless the error is also
// ErrFailed: then the next Open may find the writes or not; or ErrUnknown: then the writes may be visible later.
func (db *DB) Update(fn func(*Tx) error) error { return db.update(&call{fn: fn}) }

func (db *DB) update(c *call) error {
	if db.readOnly {
		return ErrReadOnly
	}
	if db.replica != nil {
		c.wake = make(chan struct{}, 1)
	}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	db.queue = append(db.queue, c)
	db.arrived(c)
	db.gathering.Arrived(len(db.queue))
	if db.leading {
		if c.wake == nil {
			c.wake = make(chan struct{}, 1)
		}
		db.mu.Unlock()
		<-c.wake
	} else {
		// No call is before this one, so it leads the queue.
		db.leading = true
		c.promote = true
		db.mu.Unlock()
	}
	for c.promote {
		c.promote = false
		(&group{db: db, leader: c}).run()
		if !c.again {
			break
		}
		c.again = false
		<-c.wake
	}
	if c.panic != nil {
		panic(c.panic)
	}
	return c.err
}

// run takes the queue, runs its closures, commits, passes the lead to the first call that arrived meanwhile, and wakes
// the calls that it served.
func (g *group) run() {
	defer func() {
		if !g.ended {
			// A closure ended this goroutine. The other calls of the group must not be affected.
			g.orphan = true
			go g.run()
		}
	}()
	// A second run, after a closure has ended the goroutine of the first one, goes on with the same calls.
	if !g.began {
		g.began = true
		// Both waits come before the queue is taken, so that calls that arrive meanwhile join this group.
		g.gather()
		g.awaitTurn()
		g.awaitFlights(false)
		if g.passLead() {
			g.ended = true
			return
		}
		g.take()
		g.taken = time.Now()
		g.writes, g.own = g.db.spareSets[0], g.db.spareSets[1]
		g.begin()
	}
	for {
		// At least one call runs, since the write set is empty at first. Calls that do not run go back to the queue.
		for !g.failed && g.next < len(g.calls) && g.writes.bytes < g.limit() {
			c := g.calls[g.next]
			g.next++
			g.apply(c)
		}
		if g.failed || g.commit() {
			break
		}
		g.awaitTurn() // another node was first
		g.begin()
	}
	g.ended = true
	g.writes.reset()
	g.own.reset()
	// The lead guards spareSets, not a lock. So they must be back before finish passes the lead.
	g.db.spareSets = [2]WriteSet{g.writes, g.own}
	g.finish()
	if g.flying != nil {
		g.land()
	}
}

// gathers reports whether a commit costs enough for a group to wait for more calls.
func (db *DB) gathers() bool { return db.replica != nil || db.log != nil && db.log.sync }

// gather waits for more calls.
func (g *group) gather() {
	db := g.db
	db.mu.Lock()
	alone := db.gathering.Alone()
	db.mu.Unlock()
	if alone {
		return
	}
	runtime.Gosched() // lets callers that woke at the same time join the group
	if !db.gathers() || g.space() {
		return
	}
	db.mu.Lock()
	limit, full := db.gathering.Begin(len(db.queue), time.Now())
	db.mu.Unlock()
	if limit == 0 {
		return
	}
	gather.Wait(limit, full)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.gathering.End(len(db.queue))
}

// awaitTurn lets other nodes of a cluster append that were overtaken, and waits while writes are held.
func (g *group) awaitTurn() {
	if r := g.db.replica; r != nil {
		r.log.AwaitTurn()
		g.db.holds.await()
	}
}

func (g *group) take() {
	g.db.mu.Lock()
	// Calls that run again may have come before that of the leader, which is the first of its group.
	if i := slices.Index(g.db.queue, g.leader); i > 0 {
		g.db.queue = slices.Insert(slices.Delete(slices.Clone(g.db.queue), i, i+1), 0, g.leader)
	}
	g.db.takeTurns()
	n := min(g.admit(), maxGroup)
	g.calls = g.db.queue[:n:n]
	g.db.queue = g.db.queue[n:]
	g.db.mu.Unlock()
}

func (g *group) begin() {
	if err := g.db.Failed(); err != nil {
		g.fail(err)
		return
	}
	if err := g.db.allowed(); err != nil {
		g.fail(err)
		return
	}
	// In a replicated store, applyRecord makes room, under the lock of the log: records of other nodes need it as well.
	// Only a private log needs a check here: once a record is in the log, it can no longer be refused for lack of room.
	room := g.makeRoom
	if r := g.db.replica; r != nil { // the log adds layers
		if room = nil; r.private {
			room = g.db.checkRoom
		}
	}
	if room != nil {
		if err := room(); err != nil {
			g.fail(err)
			return
		}
	}
	if err := g.beginRead(); err != nil {
		g.fail(err)
		return
	}
	g.tx.group = &g.writes
	g.tx.round = g.db.rounds.Add(1)
	if g.db.guard == nil {
		return
	}
	// The guard runs like the first closure of each group. If it refuses, no call of the group may write.
	c := &call{fn: g.db.guard}
	if g.apply(c); c.err != nil || c.panic != nil {
		g.tx.endRead()
		if c.panic != nil {
			c.err = c.panic
		}
		g.fail(c.err)
	}
}

// commit appends the write set of the group to the log, then applies it, so that other transactions see it. It returns
// false if the closures must run again, which happens only with a replicated log.
func (g *group) commit() (ended bool) {
	if g.db.replica != nil {
		return g.commitReplicated()
	}
	at := g.stamp()
	// Encode before the transaction ends, since values may be slices of its snapshot.
	record, payload := g.db.record(&g.writes)
	g.tx.endRead()
	if len(record) == logHeaderSize {
		return true // no closure wrote
	}
	// A group whose append failed leaves no gap: the next one takes the same number.
	number := g.db.layers.Load().active.newest + 1
	if err := g.db.appendGroup(record, number); err != nil {
		// After a failed sync the next Open may find the group, so its time stays taken.
		if a := g.db.archive; a != nil && !errors.Is(err, ErrFailed) {
			a.Drop()
		}
		g.fail(fmt.Errorf("store: commit: %w", err))
		return true
	}
	// Only now, since a transaction must not see what a crash could still take back.
	g.db.applyGroup(payload, number)
	g.countWritten()
	if a := g.db.archive; a != nil {
		a.Group(Group{Prev: number - 1, Number: number, At: at, Payload: payload})
	}
	// Attachments lengthen the log, but do not stay in the memtable. makeRoom counts them on their own.
	g.db.layers.Load().active.attached += len(record) - logHeaderSize - len(payload)
	g.db.commits.Add(1)
	g.db.committed.Add(int64(g.next))
	g.acknowledge()
	return true
}

func (g *group) finish() {
	db := g.db
	served, rest := g.calls[:g.next], g.calls[g.next:]
	db.mu.Lock()
	// The rest came before everything that has been queued since. Clipping makes append copy, as served shares the
	// array.
	if len(rest) > 0 {
		db.queue = append(rest[:len(rest):len(rest)], db.queue...)
	}
	if g.flying != nil {
		db.flying++
	} else if db.gathers() {
		db.gathering.Committed(len(served), min(len(db.queue), maxGroup-len(served)), g.taken, time.Now())
	}
	if len(db.queue) > 0 {
		// The lead passes before the served calls wake, so that the next commit begins without a wait for them. A send to
		// wake never blocks: it has room for one value, and each call receives one.
		heir := db.queue[0]
		heir.promote = true
		heir.wake <- struct{}{}
	} else {
		db.queue = nil
		db.leading = false
		db.idle.Broadcast()
	}
	db.mu.Unlock()
	g.calls = served
	if g.flying == nil {
		g.wake()
	}
}
