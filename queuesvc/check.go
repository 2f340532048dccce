package queuesvc

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Counts are totals of the queues that [Check] has read.
type Counts = state.Counts

// Repair makes the decisions that a start of the service leaves to the operator. It adds queues to the catalog again whose record was damaged,
// removes messages that cannot be read, and accepts the loss of records. It reports each change, and keeps copies of damaged data. n is an
// embedded server that no other process uses.
func Repair(ctx context.Context, n *natsserver.Server, report func(string)) error {
	return state.Repair(ctx, n, report)
}

// Check reads all data of queues on n and reports each inconsistency as an error that names the queue. It changes nothing. It returns an error
// if it could not continue reading.
func Check(ctx context.Context, n *natsserver.Server, report func(error)) (Counts, error) {
	return state.Check(ctx, n, report)
}
