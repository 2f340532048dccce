package queuesvc

import (
	"context"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Settle opens and closes the queues of a stopped service: streams of former releases are converted, and what a crash left is put in order. n is an embedded
// server that no other process uses.
func Settle(ctx context.Context, n *natsserver.Server, log *slog.Logger) error {
	s, err := state.Open(ctx, n, log)
	if err != nil {
		return err
	}
	s.Close()
	return nil
}
