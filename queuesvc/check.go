package queuesvc

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Counts is what [Check] has seen.
type Counts = state.Counts

// Repair decides what a start of the service leaves to a person: it enters queues in the catalog again whose record was damaged, takes
// messages out that cannot be read, and accepts that records were lost. It reports each thing that it does. Copies of what was damaged are
// kept. n is an embedded server that nobody else uses.
func Repair(ctx context.Context, n *natsserver.Server, report func(string)) error {
	return state.Repair(ctx, n, report)
}

// Check reads everything that queues keep on n and reports whatever contradicts itself, each as an error that names
// the queue. It changes nothing. Its error is that it could not read on.
func Check(ctx context.Context, n *natsserver.Server, report func(error)) (Counts, error) {
	return state.Check(ctx, n, report)
}
