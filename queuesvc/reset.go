package queuesvc

import (
	"errors"

	state "github.com/lazuli-storage/lazuli/internal/state/queue"
)

// resetBatch is the number of queues that are listed at once.
const resetBatch = 1000

// Reset deletes the queues of an account whose names begin with prefix, and returns their number. An empty prefix
// deletes everything, the service properties included. It is a tool for operators, not an operation of the REST
// reference.
func (s *Service) Reset(account, prefix string) (deleted int, err error) {
	for from, more := "", true; more; {
		var queues []state.Listed
		if queues, from, err = s.state.List(account, prefix, from, resetBatch, false); err != nil {
			return deleted, err
		}
		for _, q := range queues {
			switch err := s.state.Delete(account, q.Name); {
			case err == nil:
				deleted++
			case !errors.Is(err, state.ErrQueueNotFound): // the queue may have been deleted meanwhile
				return deleted, err
			}
		}
		more = from != ""
	}
	if prefix == "" {
		return deleted, s.properties.Remove(account, func() error {
			return s.state.ChangeProperties(account, func([]byte) ([]byte, error) { return nil, nil })
		})
	}
	return deleted, nil
}

// HasQueues reports whether an account has a queue.
func (s *Service) HasQueues(account string) (bool, error) {
	queues, _, err := s.state.List(account, "", "", 1, false)
	return len(queues) > 0, err
}
