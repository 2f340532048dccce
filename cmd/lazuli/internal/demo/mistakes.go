package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/design"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lake"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/logdata"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/orders"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/search"
	"github.com/lazuli-storage/lazuli/workers"
)

// mistakes are those of all demonstrations. A step that the pattern has too is where its worker is killed after them.
var mistakes = slices.Concat(eventual.Mistakes, index.Mistakes, large.Mistakes, logdata.Mistakes,
	outbox.Mistakes, search.Mistakes, lake.Mistakes, orders.Mistakes, design.Mistakes)

// MistakesOf returns the mistakes of a demonstration; none means that it has no naive form.
func MistakesOf(demonstration string) (list []*rig.Mistake) {
	for i := range mistakes {
		if mistakes[i].Demonstration == demonstration {
			list = append(list, &mistakes[i])
		}
	}
	return list
}

// RunNaiveWorker is the worker that makes the mistake of the settings, until ctx is done.
func RunNaiveWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	for i := range mistakes {
		if mistakes[i].ID() == s.Mistake {
			return mistakes[i].Run(ctx, storage, app, s)
		}
	}
	return fmt.Errorf("there is no mistake %q", s.Mistake)
}
