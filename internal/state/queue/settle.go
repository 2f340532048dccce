package queue

import (
	"context"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// Settle opens and closes the file of a stopped service, so that the file has everything that was in the log. n is an
// embedded server that no other process uses.
func Settle(ctx context.Context, path string, n *natsserver.Server, log *slog.Logger) error {
	o, err := StoreOptions(ctx, n, log)
	if err != nil {
		return err
	}
	s, err := Open(path, Options{Store: o, Log: log})
	if err != nil {
		return err
	}
	return s.Close()
}
