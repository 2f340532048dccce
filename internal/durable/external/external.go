// Package external has the workflows and entities whose code is in another process and is reached by messages. The
// function host registers them with an app; the engine of workers/durable runs them.
package external

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
)

// Orchestrator runs one step of a workflow. It takes an OrchestratorRequest and returns an OrchestratorResponse of the
// Durable Task protocol, as protobuf. A step that fails with an error is run again later; with one of
// workers.Permanent, the instance fails.
type Orchestrator func(ctx context.Context, request []byte) (response []byte, err error)

// OrchestratorOf implements engine.Orchestrator.
func (Orchestrator) OrchestratorOf() string { return "durable" }

// Entity runs a batch of operations of an entity, in their order. Nothing of the batch has happened if it returns an
// error; the batch is then run again later. With an error of workers.Permanent, its operations fail.
type Entity func(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error)

// EntityOf implements engine.Entity.
func (Entity) EntityOf() string { return "durable" }
