// Package inside lets the packages at workers/durable reach what others of them are made of, which no exported
// signature may show.
package inside

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
)

// Client returns the hub's client of a *durable.Client. Package durable sets it.
var Client func(public any) *hub.Client

// EntityBatch returns the function that runs batches of operations of an *entity.Kind; nil for another value. Package
// entity sets it.
var EntityBatch func(kind any) func(context.Context, *entitybatch.Batch) *entitybatch.Result
