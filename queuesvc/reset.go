package queuesvc

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// resetBatch is how many queues are listed at once.
const resetBatch = 1000

// Reset deletes the queues of an account whose names begin with prefix, and returns how many there were. An empty prefix is
// everything, the service properties too. It is an operator's tool, not an operation of the REST reference.
func (s *Service) Reset(ctx context.Context, account, prefix string) (deleted int, err error) {
	for from, more := "", true; more; {
		var queues []state.Listed
		queues, from = s.state.List(account, prefix, from, resetBatch)
		for _, q := range queues {
			switch err := s.state.Delete(ctx, account, q.Name); {
			case err == nil:
				deleted++
			case !errors.Is(err, state.ErrQueueNotFound): // or somebody else was faster
				return deleted, err
			}
		}
		more = from != ""
	}
	if prefix == "" && len(s.state.Properties(account)) > 0 {
		return deleted, s.properties.Remove(account, func() error { return s.state.SetProperties(ctx, account, nil) })
	}
	return deleted, nil
}
