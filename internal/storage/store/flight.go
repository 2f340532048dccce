package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// Groups in flight. An append to a replicated log takes milliseconds, mostly waiting. So at the node beside the log's
// leader the next group does not wait for it: its closures run on the state that will be if the groups before it are
// committed, and its record is valid only then (see [replog.Pending]). Only the closures see that state: a View reads
// what was applied, and the callers of a group learn of their commit when the log has applied its record, which comes
// after those of all groups before.
//
// If a group fails, all that were built on it fail as well, by the content of the log. Nothing begins until the last of
// them is known; what they have written in memory is dropped with them, and their closures run again on what was
// applied, in their order.
//
// Nothing is built on a hold, since the node must first know of it, nor on a record of several messages. Where an
// archive gives the groups their times it notes one at a time. On a node of a cluster it does not: the record has the
// time, and the archive receives the groups as the log applies them, those that were in flight like all others.

const (
	// maxFlying is the maximum number of groups in flight, maxFlyingBytes that of their bytes from which no other one
	// begins.
	maxFlying      = 4
	maxFlyingBytes = 8 << 20
	// minFlying is the number of calls with which a group begins while others are in flight, and from which others may
	// begin while it is; tests use smaller values. What an append costs the processors of all nodes is that of some three
	// calls.
	minFlying = 32
)

// runsAhead reports whether groups may begin before the one before them is committed.
func (db *DB) runsAhead() bool {
	r := db.replica
	return r != nil && !r.private && !r.local && r.log.Ahead()
}

// awaitFlights waits until another group may begin, or until none is in flight.
func (g *group) awaitFlights(all bool) {
	if g.db.replica == nil {
		return
	}
	f := &g.db.flights
	all = all || !g.db.runsAhead()
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.list) > 0 && (all || f.failed || len(f.list) >= maxFlying || f.bytes >= maxFlyingBytes) {
		f.landed.Wait()
	}
}

// beginRead begins the transaction of a group, with what is in flight above what was applied.
func (g *group) beginRead() error {
	g.after = nil
	if g.db.replica == nil {
		return g.db.beginRead(&g.tx)
	}
	f := &g.db.flights
	for {
		g.awaitFlights(false)
		f.mu.Lock()
		var layers []*memtable
		g.after = nil
		for _, one := range f.list {
			layers = append(layers, nil)
			copy(layers[1:], layers)
			layers[0], g.after = one.layer, one.append
		}
		f.mu.Unlock()
		if err := g.db.beginRead(&g.tx); err != nil {
			return err
		}
		// Both after the read has begun: a hold that it sees is in force, and another node's record that it sees has made
		// the groups in flight fail, or came after them.
		held := g.db.holds.held()
		if !held && (g.after == nil || g.after.Follows(g.tx.snapshot[0])) {
			g.tx.flying = layers
			return nil
		}
		g.tx.endRead()
		if held {
			g.db.holds.await()
		} else {
			g.awaitFlights(true)
		}
	}
}

// append appends the payload of the group. It returns when the outcome is known, or has set flying. A group with a time
// of the archive waits for its outcome.
func (g *group) append(prev uint64, payload []byte, stamped bool) error {
	db := g.db
	log := db.replica.log
	if g.after == nil && (g.next < db.minFlying || stamped || !db.runsAhead()) {
		return log.Append(prev, payload, g.writes.noteHeaders())
	}
	a, err := log.Begin(g.after, prev, payload, g.writes.noteHeaders())
	if err != nil {
		return err
	}
	if !a.Extends() || g.writes.hasHold() || stamped || !db.runsAhead() {
		return a.Wait()
	}
	one := &flying{append: a, layer: newMemtable(len(db.buckets)), bytes: len(payload), calls: g.next}
	one.layer.unfiltered = true
	own, err := splitAttached(a.Payload(), func(Write) error { return nil })
	if err == nil {
		err = one.layer.insertPayload(db, own, math.MaxUint64)
	}
	if err != nil {
		panic(fmt.Sprintf("store: cannot decode an encoded write set: %v", err))
	}
	f := &db.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
	f.bytes += one.bytes
	f.calls += one.calls
	g.flying = one
	return nil
}

// hasHold reports whether the write set has a hold.
func (s *WriteSet) hasHold() bool {
	for _, w := range s.attached {
		if string(w.Key) == holdKey {
			return true
		}
	}
	return false
}

// space waits while groups are in flight until enough calls have come for another one. It reports whether groups are
// still in flight.
func (g *group) space() bool {
	db, f := g.db, &g.db.flights
	if !db.runsAhead() {
		return false
	}
	f.mu.Lock()
	count, want := len(f.list), max(db.minFlying, f.calls/(maxFlying-1))
	f.mu.Unlock()
	if count == 0 {
		return false
	}
	db.mu.Lock()
	full := db.gathering.Await(len(db.queue), want)
	if db.flying == 0 { // land has looked before
		db.gathering.Cancel()
	}
	db.mu.Unlock()
	if full == nil {
		return true
	}
	<-full
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.flying > 0
}

// land waits for the outcome of a group in flight, and tells its calls.
func (g *group) land() {
	db, f := g.db, &g.db.flights
	err := g.flying.append.Wait()
	served := g.calls
	again := errors.Is(err, replog.ErrConflict)
	switch {
	case err == nil:
		g.acknowledge()
	case again && g.orphan:
		served = served[1:] // its caller waits no more
	case again:
		g.leader.again = true
	default:
		g.fail(fmt.Errorf("store: commit: %w", logError(err)))
	}
	f.mu.Lock()
	for f.list[0] != g.flying {
		f.landed.Wait()
	}
	f.list = f.list[1:]
	f.bytes -= g.flying.bytes
	f.calls -= g.flying.calls
	f.failed = f.failed || err != nil
	if again {
		f.again = append(f.again, served...)
	}
	var calls []*call
	if len(f.list) == 0 {
		calls, f.again, f.failed = f.again, nil, false
	}
	db.mu.Lock()
	db.flying--
	if err == nil {
		db.gathering.Committed(len(served), len(db.queue), g.taken, time.Now())
	}
	if db.flying == 0 {
		db.gathering.Cancel() // see space
	}
	db.requeue(calls)
	if db.flying == 0 {
		db.idle.Broadcast()
	}
	db.mu.Unlock()
	f.landed.Broadcast()
	f.mu.Unlock()
	if err == nil || !again {
		db.replica.log.EndTurn()
		g.wake()
	}
}

// requeue puts calls before those of the queue, and lets the first one lead if no call does. db.mu is held.
func (db *DB) requeue(calls []*call) {
	if len(calls) == 0 {
		return
	}
	db.queue = append(calls, db.queue...)
	if !db.leading {
		db.leading = true
		heir := db.queue[0]
		heir.promote = true
		heir.wake <- struct{}{}
	}
}

// commitReplicated appends the write set of the group to the replicated log, which applies it. If another node was
// first, the closures run again. It reports whether the group has ended, but for what is in flight.
func (g *group) commitReplicated() (ended bool) {
	// The last record that the closures could see. The log accepts the payload only if that is still its last valid one.
	prev := g.tx.snapshot[0]
	// Values may be slices of the snapshot, so the payload is complete before the transaction ends.
	stamped := g.stamp() != 0
	payload := g.writes.appendAttached(g.writes.appendPayload(slices.Grow(g.db.scratch[:0], g.writes.room())))
	// The log encodes a message of its own from it, which is what the memtable keeps.
	if g.db.scratch = payload; cap(payload) > maxScratch {
		g.db.scratch = nil
	}
	g.tx.endRead()
	var err error
	if len(payload) > 0 {
		err = g.append(prev, payload, stamped)
	} else if g.db.replica.local {
		return true
	} else {
		err = g.confirm(prev)
	}
	switch {
	case errors.Is(err, replog.ErrConflict):
		// All closures run again on the new state, also those that have returned an error: their last run counts.
		g.next = 0
		g.writes.reset()
		return false
	case err != nil:
		if a := g.db.archive; a != nil && !errors.Is(err, replog.ErrUnknown) {
			a.Drop()
		}
		g.fail(fmt.Errorf("store: commit: %w", logError(err)))
	case g.flying != nil:
		return true
	case len(payload) > 0:
		g.acknowledge()
	}
	g.db.replica.log.EndTurn() // nothing was written after all
	return true
}

// confirm returns nil if what the closures of a group that wrote nothing have seen was committed, and is current. prev
// is the last record in the memtable that they saw.
func (g *group) confirm(prev uint64) error {
	if g.after != nil {
		g.awaitFlights(true)
		if !g.after.Follows(prev) {
			return replog.ErrConflict
		}
		prev = max(prev, g.after.Place())
	}
	err := g.db.replica.log.Barrier()
	if err == nil && g.db.layers.Load().active.visible.Load() != prev {
		err = replog.ErrConflict // what the closures have read was out of date
	}
	return err
}
