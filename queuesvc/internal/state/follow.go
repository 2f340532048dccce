package state

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkPause is the interval at which a follower checks whether it has seen everything: records at the end of a stream can be removed while it
// reads, and then no message marks the end.
const checkPause = 200 * time.Millisecond

// follower reads a stream from its oldest record, and continues with new records.
type follower struct {
	stream jetstream.Stream
	sub    *nats.Subscription
	end    uint64        // the last record when it began
	caught chan struct{} // closed when end was reached
	seen   atomic.Uint64 // number of records that were delivered and applied
	last   atomic.Uint64 // the last record that was applied, or the one before the start
}

// follow starts to read a stream from a record, or from its first if from is 0. take is called for every record, in order, by one goroutine; it
// must not keep m. After a lost connection or leader, reading resumes; take may then see a record again.
func follow(ctx context.Context, conn *nats.Conn, stream jetstream.Stream, subject string, from uint64, headersOnly bool,
	take func(m *nats.Msg, seq uint64)) (*follower, error) {
	legacy, err := conn.JetStream(nats.MaxWait(answerTimeout))
	if err != nil {
		return nil, err
	}
	state := stream.CachedInfo().State
	f := &follower{stream: stream, end: state.LastSeq, caught: make(chan struct{})}
	start := nats.DeliverAll()
	if from > 0 {
		start = nats.StartSequence(from)
		f.last.Store(from - 1)
	}
	reached := state.Msgs == 0 || from > state.LastSeq
	if reached {
		close(f.caught)
	}
	options := []nats.SubOpt{nats.BindStream(stream.CachedInfo().Config.Name), nats.OrderedConsumer(), start, nats.Context(ctx)}
	if headersOnly {
		options = append(options, nats.HeadersOnly())
	}
	f.sub, err = legacy.Subscribe(subject, func(m *nats.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return
		}
		take(m, meta.Sequence.Stream)
		f.seen.Store(meta.Sequence.Consumer)
		f.last.Store(meta.Sequence.Stream)
		if !reached && (meta.Sequence.Stream >= f.end || meta.NumPending == 0) {
			reached = true
			close(f.caught)
		}
	}, options...)
	if err != nil {
		return nil, err
	}
	if err := f.sub.SetPendingLimits(-1, -1); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// stuckPauses is the number of consecutive checks without a new record after which the next record is suspected to be unreadable.
const stuckPauses = 3

// stuckAt means that the stream does not deliver the record after seq, because it cannot be read.
type stuckAt struct{ seq uint64 }

func (e stuckAt) Error() string { return fmt.Sprintf("record %d cannot be read", e.seq) }

// wait waits until all records that existed at the start were read. It returns stuckAt if a record cannot be read.
func (f *follower) wait(ctx context.Context) error {
	ticker := time.NewTicker(checkPause)
	defer ticker.Stop()
	last, idle := f.last.Load(), 0
	for {
		select {
		case <-f.caught:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: reading a stream: %w", ErrUnavailable, context.Cause(ctx))
		case <-ticker.C:
			info, err := f.sub.ConsumerInfo()
			if err == nil && info.NumPending == 0 && info.Delivered.Consumer <= f.seen.Load() {
				return nil
			}
			if now := f.last.Load(); now != last {
				last, idle = now, 0
				continue
			}
			if idle++; idle >= stuckPauses {
				if seq, ok := f.unreadable(ctx, last+1); ok {
					return stuckAt{seq}
				}
				idle = 0
			}
		}
	}
}

// unreadable returns the first record from a sequence on that should exist, if it cannot be read.
func (f *follower) unreadable(ctx context.Context, from uint64) (uint64, bool) {
	for seq := from; seq <= f.end; seq++ {
		_, err := f.stream.GetMsg(ctx, seq)
		var api *jetstream.APIError
		switch {
		case err == nil:
			return 0, false // slow, but not stuck
		case errors.As(err, &api) && api.ErrorCode == codeNoMessage: // removed, or unreadable
			if f.readableAfter(ctx, seq) || seq == f.end {
				return seq, true
			}
		default:
			return 0, false
		}
	}
	return 0, false
}

// readableAfter reports whether the record after seq can be read.
func (f *follower) readableAfter(ctx context.Context, seq uint64) bool {
	_, err := f.stream.GetMsg(ctx, seq+1)
	return err == nil
}

// codeNoMessage is JetStream's error code for a record that does not exist.
const codeNoMessage jetstream.ErrorCode = 10037

// stop ends following. Unsubscribe asks the servers to delete the consumer, and waits ten seconds if they have no leader: when nodes of a cluster
// stop one after another. The servers delete it anyway, after some seconds.
func (f *follower) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.sub.Unsubscribe()
	}()
	timer := time.NewTimer(stopWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// stopWait bounds the wait of stop.
const stopWait = 500 * time.Millisecond
