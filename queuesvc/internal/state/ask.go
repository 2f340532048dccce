package state

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// attemptTimes are the time limits of the attempts of a request that may be sent again. On a cluster a request to a server that was just lost has no
// answer, while the next one has its answer at once; a busy machine takes longer.
var attemptTimes = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, answerTimeout}

// attempt calls fn until it has an answer, with the time limits of attemptTimes if answers may be lost.
func attempt(ctx context.Context, lossy bool, fn func(context.Context) error) error {
	if !lossy {
		return fn(ctx)
	}
	var err error
	for _, limit := range attemptTimes {
		limited, cancel := context.WithTimeout(ctx, limit)
		err = fn(limited)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return err
}

// lookupStream asks for a stream with its current state.
func (s *Store) lookupStream(ctx context.Context, name string) (stream jetstream.Stream, err error) {
	err = attempt(ctx, s.external, func(ctx context.Context) error {
		stream, err = s.js.Stream(ctx, name)
		return err
	})
	return stream, err
}

// makeStream creates a stream, unless there is one with the same configuration. The errors are those of JetStream: if the name is taken,
// [jetstream.ErrStreamNameAlreadyInUse].
func (s *Store) makeStream(ctx context.Context, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	err = attempt(ctx, s.external, func(ctx context.Context) error {
		stream, err = s.js.CreateStream(ctx, config)
		return err
	})
	return stream, err
}
