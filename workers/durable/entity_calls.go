package durable

import (
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
)

// CallEntity runs an operation of an entity and waits for its result. It returns an error if the operation has failed.
func CallEntity[Out any](ctx *Context, id, operation string, in any) (Out, error) {
	return Await[Out](CallEntityTask(ctx, id, operation, in))
}

// CallEntityTask is [CallEntity] without the waiting: see [WhenAll].
func CallEntityTask(ctx *Context, id, operation string, in any) Task {
	input, err := inputOf(in)
	if err == nil {
		err = record.CheckEntityID(id)
	}
	if err != nil {
		return replay.FailedTask(err)
	}
	return ctx.run.Call(id, operation, input)
}

// SignalEntity sends an operation to an entity and does not wait for it. Signals of one workflow to one entity arrive
// in their order.
func SignalEntity(ctx *Context, id, operation string, in any) error {
	return SignalEntityAt(ctx, id, operation, in, time.Time{})
}

// SignalEntityAt is [SignalEntity] at a time.
func SignalEntityAt(ctx *Context, id, operation string, in any, at time.Time) error {
	input, err := inputOf(in)
	if err == nil {
		err = record.CheckEntityID(id)
	}
	if err == nil {
		ctx.run.Signal(id, operation, input, at)
	}
	return err
}

// LockEntities waits until the workflow has all of the entities for itself, 1 to 64, and returns the function that
// releases them, which may be deferred. Until then, they handle the calls of this workflow only; signals and calls of
// others wait. Workflows that lock several entities do not wait for each other: each locks them in the order of their
// IDs. A workflow has one such section at a time, or LockEntities returns ErrLocked. The locks are released when the
// workflow ends, in whatever way.
func LockEntities(ctx *Context, ids ...string) (unlock func(), err error) {
	if len(ids) == 0 || len(ids) > record.MaxLockSet {
		return nil, fmt.Errorf("%w: a lock needs 1 to %d entities", record.ErrBadRequest, record.MaxLockSet)
	}
	for _, id := range ids {
		if err := record.CheckEntityID(id); err != nil {
			return nil, err
		}
	}
	if ctx.locked {
		return nil, ErrLocked
	}
	// The section has a number, and no random ID, so that it is the same in each replay.
	ctx.locks++
	ctx.locked = true
	section := ctx.locks
	if err := ctx.run.Lock(section, ids).Await(nil); err != nil {
		return nil, err
	}
	return func() {
		// A second call must not release a section that was begun since. A workflow that was left, and not ended, keeps its
		// locks: the execution takes no request of a deferred function then.
		if !ctx.locked || ctx.locks != section {
			return
		}
		ctx.locked = false
		seen := map[string]bool{}
		for _, id := range ids {
			if !seen[id] {
				ctx.run.Unlock(section, id)
			}
			seen[id] = true
		}
	}, nil
}
