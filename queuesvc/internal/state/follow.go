package state

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkPause is how often a follower asks whether it has seen everything: records at the end of a stream can vanish
// while it reads, and then nothing comes to tell that the end is reached.
const checkPause = 200 * time.Millisecond

// follower reads a stream from its oldest record, and goes on with what is added.
type follower struct {
	sub    *nats.Subscription
	end    uint64        // the last record when it began
	caught chan struct{} // closed when that was reached
	seen   atomic.Uint64 // how many records were delivered and taken
}

// follow starts to read a stream. take is called for every record, in order, by one goroutine; it must not keep m. On
// a lost connection or leader the reading is resumed; take may then see a record again.
func follow(ctx context.Context, conn *nats.Conn, stream jetstream.Stream, subject string, headersOnly bool,
	take func(m *nats.Msg, seq uint64)) (*follower, error) {
	legacy, err := conn.JetStream(nats.MaxWait(answerTimeout))
	if err != nil {
		return nil, err
	}
	state := stream.CachedInfo().State
	f := &follower{end: state.LastSeq, caught: make(chan struct{})}
	reached := state.Msgs == 0
	if reached {
		close(f.caught)
	}
	options := []nats.SubOpt{nats.BindStream(stream.CachedInfo().Config.Name), nats.OrderedConsumer(), nats.DeliverAll(), nats.Context(ctx)}
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

// wait waits until everything was read that was there when it began.
func (f *follower) wait(ctx context.Context) error {
	ticker := time.NewTicker(checkPause)
	defer ticker.Stop()
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
		}
	}
}

func (f *follower) stop() { f.sub.Unsubscribe() }
