package durable

import (
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
)

// CallEntity begins an operation of an entity.
func (c *Context) CallEntity(id, operation string, in any) Task {
	input, err := inputOf(in)
	if err == nil {
		err = record.CheckEntityID(id)
	}
	if err != nil {
		return replay.FailedTask(err)
	}
	return c.run.Call(id, operation, input)
}

// SignalEntity sends an operation to an entity and does not wait for it. Signals of one workflow to one entity arrive
// in their order.
func (c *Context) SignalEntity(id, operation string, in any) error {
	return c.SignalEntityAt(id, operation, in, time.Time{})
}

// SignalEntityAt is [Context.SignalEntity] at a time.
func (c *Context) SignalEntityAt(id, operation string, in any, at time.Time) error {
	input, err := inputOf(in)
	if err == nil {
		err = record.CheckEntityID(id)
	}
	if err == nil {
		c.run.Signal(id, operation, input, at)
	}
	return err
}

// LockEntities waits until the workflow has all of the entities for itself, 1 to 64, and returns the function that
// releases them, which may be deferred. Until then, they handle the calls of this workflow only; signals and calls of
// others wait. Workflows that lock several entities do not wait for each other: each locks them in the order of their
// IDs. A workflow has one such section at a time, or LockEntities returns ErrLocked. The locks are released when the
// workflow ends, in whatever way.
func (c *Context) LockEntities(ids ...string) (unlock func(), err error) {
	if len(ids) == 0 || len(ids) > record.MaxLockSet {
		return nil, fmt.Errorf("%w: a lock needs 1 to %d entities", record.ErrBadRequest, record.MaxLockSet)
	}
	for _, id := range ids {
		if err := record.CheckEntityID(id); err != nil {
			return nil, err
		}
	}
	if c.locked {
		return nil, ErrLocked
	}
	// The section has a number, and no random ID, so that it is the same in each replay.
	c.locks++
	c.locked = true
	section := c.locks
	if err := c.run.Lock(section, ids).Await(nil); err != nil {
		return nil, err
	}
	return func() {
		// A second call must not release a section that was begun since. A workflow that was left, and not ended, keeps its
		// locks: the execution takes no request of a deferred function then.
		if !c.locked || c.locks != section {
			return
		}
		c.locked = false
		seen := map[string]bool{}
		for _, id := range ids {
			if !seen[id] {
				c.run.Unlock(section, id)
			}
			seen[id] = true
		}
	}, nil
}
