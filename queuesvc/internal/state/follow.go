package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkPause is the interval at which a follower checks whether it has seen everything: records at the end of a stream can be removed while it
// reads, and then no message marks the end.
const checkPause = 200 * time.Millisecond

const (
	// followHeartbeat is the interval at which a consumer without records reports. A follower replaces a consumer that is silent for two to four
	// times as long: the server that it lived on was lost.
	followHeartbeat = 2 * time.Second
	// watchPause is the interval at which a follower checks whether its subscription still exists.
	watchPause = time.Second
	// lookPause is the interval at which it compares its position with the stream's end.
	lookPause = 10 * time.Second
)

// reading is what a follower reads, and how.
type reading struct {
	conn    *nats.Conn
	lossy   bool // requests may have no answer: the servers are a cluster
	stream  jetstream.Stream
	subject string
	from    uint64 // the first record, 0 for the stream's first
	// headersOnly leaves the bodies out.
	headersOnly bool
	// take is called for every record, in order, by one goroutine at a time. It must not keep m.
	take func(m *nats.Msg, seq uint64)
	log  *slog.Logger
}

// follower reads a stream, and continues with new records until it is stopped.
type follower struct {
	reading

	end     uint64        // the last record when it began
	caught  chan struct{} // closed when end was reached
	reached sync.Once     // closes caught
	seen    atomic.Uint64 // number of records that the consumer has delivered and that were applied
	last    atomic.Uint64 // the last record that was applied, or the one before the start

	kick    chan struct{} // the consumer is suspected to deliver nothing
	cancel  context.CancelFunc
	watched chan struct{} // closed when watch has ended

	mu    sync.Mutex // guards the rest; held while a record is applied
	sub   *nats.Subscription
	round int // the number of the subscription: records of former ones are ignored
}

// follow starts to read a stream. After a lost connection, leader or consumer, reading resumes; take may then see a record again. ctx bounds the
// start.
func follow(ctx context.Context, r reading) (*follower, error) {
	state := r.stream.CachedInfo().State
	f := &follower{reading: r, end: state.LastSeq, caught: make(chan struct{}), watched: make(chan struct{}), kick: make(chan struct{}, 1)}
	if r.from > 0 {
		f.last.Store(r.from - 1)
	}
	if state.Msgs == 0 || r.from > state.LastSeq {
		f.reached.Do(func() { close(f.caught) })
	}
	if err := attempt(ctx, r.lossy, f.subscribe); err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.watch(watching)
	return f, nil
}

// subscribe makes a consumer that delivers the records after the last one that was applied.
func (f *follower) subscribe(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	round := f.round
	f.seen.Store(0)
	start := nats.DeliverAll()
	if last := f.last.Load(); last > 0 {
		start = nats.StartSequence(last + 1)
	}
	js, err := f.conn.JetStream(nats.MaxWait(answerTimeout))
	if err != nil {
		return err
	}
	options := []nats.SubOpt{nats.BindStream(f.stream.CachedInfo().Config.Name), nats.OrderedConsumer(), nats.IdleHeartbeat(followHeartbeat), start}
	if f.headersOnly {
		options = append(options, nats.HeadersOnly())
	}
	type result struct {
		sub *nats.Subscription
		err error
	}
	done := make(chan result, 1)
	go func() { // the context of a subscription would end it later
		sub, err := js.Subscribe(f.subject, func(m *nats.Msg) { f.receive(round, m) }, options...)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		done <- result{sub, err}
	}()
	select {
	case r := <-done:
		f.sub = r.sub
		return r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.sub != nil {
				_ = r.sub.Unsubscribe()
			}
		}()
		return fmt.Errorf("%w: reading a stream: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// receive applies a record that a subscription has delivered.
func (f *follower) receive(round int, m *nats.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.round != round {
		return
	}
	f.take(m, meta.Sequence.Stream)
	f.seen.Store(meta.Sequence.Consumer)
	f.last.Store(meta.Sequence.Stream)
	if meta.Sequence.Stream >= f.end || meta.NumPending == 0 {
		f.reached.Do(func() { close(f.caught) })
	}
}

// subscription returns the current subscription, nil if it could not be made.
func (f *follower) subscription() *nats.Subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sub
}

// watch replaces a subscription that delivers nothing any more. The NATS client replaces the consumer of a lost server, but ends the subscription
// if that is refused for another reason than those that it knows; this happens while a node of a cluster starts. A consumer on a replica that does
// not catch up is noticed by the stream's end, which the leader knows.
func (f *follower) watch(ctx context.Context) {
	defer close(f.watched)
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	looked := time.Now()
	var behind uint64 // at the last look, the record that was read last although others followed; 0 if none did
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-f.kick:
			looked = time.Time{}
			if behind == 0 {
				behind = f.last.Load() + 1
			}
		}
		reason := ""
		if sub := f.subscription(); sub == nil || !sub.IsValid() {
			reason = "the subscription has ended"
		} else if time.Since(looked) >= lookPause {
			looked = time.Now()
			last := f.last.Load()
			if lags := f.lags(ctx, last); lags && behind == last+1 {
				reason = "its consumer delivers no records"
			} else if behind = 0; lags {
				behind = last + 1
			}
		}
		if reason == "" || f.conn.IsClosed() {
			continue
		}
		f.log.Warn("reading a stream again from another consumer", "stream", f.stream.CachedInfo().Config.Name, "record", f.last.Load(), "reason", reason)
		f.unsubscribe()
		if err := attempt(ctx, f.lossy, f.subscribe); err != nil && ctx.Err() == nil {
			f.log.Warn("a stream cannot be read; retrying", "stream", f.stream.CachedInfo().Config.Name, "err", err)
		}
		looked, behind = time.Now(), 0
	}
}

// suspect makes the follower compare its position with the stream's end now, and replace its consumer if records are missing.
func (f *follower) suspect() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// lags reports whether the stream has a record after last, as its leader says.
func (f *follower) lags(ctx context.Context, last uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	info, err := f.stream.Info(ctx)
	if err != nil || info.State.LastSeq <= last || info.State.Msgs == 0 {
		return false
	}
	_, err = f.stream.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(f.subject))
	return err == nil
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
			if f.drained() {
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

// drained reports whether the consumer has no more records, and all that it has delivered were applied.
func (f *follower) drained() bool {
	sub := f.subscription()
	if sub == nil {
		return false
	}
	info, err := sub.ConsumerInfo()
	return err == nil && info.NumPending == 0 && info.Delivered.Consumer <= f.seen.Load() && sub == f.subscription()
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

// stop ends following.
func (f *follower) stop() {
	f.cancel()
	<-f.watched
	f.unsubscribe()
}

// unsubscribe ends the current subscription. It asks the servers to delete the consumer, which takes ten seconds if they have no leader: when nodes
// of a cluster stop one after another. The servers delete it anyway, after some seconds.
func (f *follower) unsubscribe() {
	f.mu.Lock()
	sub := f.sub
	f.sub = nil
	f.round++
	f.mu.Unlock()
	if sub == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sub.Unsubscribe()
	}()
	timer := time.NewTimer(stopWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// stopWait bounds the wait of unsubscribe.
const stopWait = 500 * time.Millisecond
