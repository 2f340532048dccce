package durabletask

import (
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
	"github.com/lazuli-storage/lazuli/workers/durabletask/task"
)

// Entity defines entities whose states are of the type S; see [durable.Entity].
type Entity[S any] = entity.Kind[S]

// EntityContext belongs to one operation of an entity.
type EntityContext = entity.Context

// NewEntity returns an entity without operations.
func NewEntity[S any]() *Entity[S] { return new(entity.Kind[S]) }

// Operation adds an operation to an entity, and returns the entity; see [durable.Operation].
func Operation[S, In, Out any](e *Entity[S], name string,
	f func(ctx *EntityContext, state *S, in In) (Out, error)) *Entity[S] {
	return entity.Operation(e, name, f)
}

// EntityID returns the ID of an entity.
func EntityID(name, key string) string { return entity.ID(name, key) }

// CallEntity runs an operation of an entity from an orchestrator, and waits for its result.
func CallEntity[Out any](ctx *task.OrchestrationContext, id, operation string, in any) (Out, error) {
	return durable.CallEntity[Out](ctx, id, operation, in)
}

// SignalEntity sends an operation to an entity from an orchestrator.
func SignalEntity(ctx *task.OrchestrationContext, id, operation string, in any) error {
	return ctx.SignalEntity(id, operation, in)
}

// LockEntities locks entities for an orchestrator until it calls unlock, or ends.
func LockEntities(ctx *task.OrchestrationContext, ids ...string) (unlock func(), err error) {
	return ctx.LockEntities(ids...)
}
