package queuesvc

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Counts is what [Check] has seen.
type Counts = state.Counts

// Check reads everything that queues keep on n and reports whatever contradicts itself, each as an error that names
// the queue. It changes nothing. Its error is that it could not read on.
func Check(ctx context.Context, n *natsserver.Server, report func(error)) (Counts, error) {
	return state.Check(ctx, n, report)
}
