package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// load starts to fill the index if that has not been done yet, and returns at once.
func (q *Queue) load() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return ErrQueueNotFound
	}
	if q.loading != unloaded {
		return nil
	}
	q.loading, q.loadErr = loading, nil
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	q.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		if err := q.readStream(ctx); err != nil && ctx.Err() == nil {
			q.failLoad(err)
		}
	}()
	return nil
}

// readStream reads the headers of all records in the stream, from the oldest. If others write to the stream it goes on
// with what they write, until ctx ends.
func (q *Queue) readStream(ctx context.Context) error {
	stream, err := q.store.js.Stream(ctx, q.stream)
	if err != nil {
		return err
	}
	if stream.CachedInfo().State.Msgs == 0 && !q.store.shared {
		q.finishLoad()
		return nil
	}
	f, err := follow(ctx, q.store.conn, stream, q.prefix+"*", true, q.take)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.wait(ctx); err != nil {
		return err
	}
	q.finishLoad()
	if q.store.shared {
		<-ctx.Done()
	}
	return nil
}

// early reports whether an entry is known before its turn: its record lies beyond what was read so far, and older messages may be
// still to come. The lock is held.
func (q *Queue) early(e entry) bool { return q.loading == loading && e.seq > q.followed }

// take takes over a record that the stream has delivered.
func (q *Queue) take(m *nats.Msg, seq uint64) {
	r, err := decodeRecord(m.Header.Get(headerRecord))
	at, ok := parseSlot(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	if err == nil && r.kind == recordCleared {
		q.clearIndex(seq)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.followed = max(q.followed, seq)
	if now := time.Now(); q.store.shared && now.Sub(q.marks[1].at) >= q.store.quiet {
		q.marks = [2]mark{q.marks[1], {now, q.followed}}
	}
	switch {
	case err != nil || !ok && r.kind != recordCleared:
		q.logger().Warn("the queue's stream holds a record that is not a message's", "subject", m.Subject, "seq", seq)
		return
	case r.kind == recordCleared:
		return
	}
	before := q.index.live
	q.applyLocked(at, seq, &r)
	if n := q.index.live; q.loading == loading && n > before && n&(n-1) == 0 { // at 1, 2, 4, 8, ... messages
		q.announce()
	}
}

// announce wakes who waits for the index to grow. The lock is held.
func (q *Queue) announce() {
	close(q.progress)
	q.progress = make(chan struct{})
}

func (q *Queue) finishLoad() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.loading != loading {
		return
	}
	q.loading = loaded
	q.announce()
}

// failLoad gives the error to those who wait, and lets the next caller try again.
func (q *Queue) failLoad(err error) {
	if isNoStream(err) {
		err = q.vanished(context.Background())
	} else {
		err = fmt.Errorf("%w: reading the stream: %w", ErrUnavailable, err)
	}
	q.logger().Warn("a queue could not be read", "err", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop = nil
	q.loading, q.loadErr = unloaded, err
	q.announce()
}

// isNoStream reports whether err is the NATS client's word for a stream that does not exist.
func isNoStream(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrStreamNotFound) ||
		errors.Is(err, errNoStream) || errors.Is(err, nats.ErrNoResponders)
}
