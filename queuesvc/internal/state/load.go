package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// load starts to fill the index if that has not started yet, and returns at once.
func (q *Queue) load() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return ErrQueueNotFound
	}
	if q.loading != unloaded {
		return nil
	}
	q.loading, q.loadErr, q.logBytes = loading, nil, 0
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

// readStream reads the headers of all records in the stream, from the oldest. If other processes write to the stream it continues with their
// records, until ctx ends.
func (q *Queue) readStream(ctx context.Context) error {
	stream, err := q.store.lookupStream(ctx, q.stream)
	if err != nil {
		return err
	}
	if stream.CachedInfo().State.Msgs == 0 && !q.store.shared {
		q.finishLoad()
		return nil
	}
	for from := uint64(0); ; {
		f, err := follow(ctx, reading{conn: q.store.conn, lossy: q.store.external, stream: stream, subject: q.prefix + "*", from: from, headersOnly: true,
			take: q.take, log: q.logger()})
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.follower = f
		q.mu.Unlock()
		err = f.wait(ctx)
		var stuck stuckAt
		if errors.As(err, &stuck) {
			f.stop()
			q.noteUnreadable()
			q.logger().Error("a record cannot be read; its message is unknown", "record", stuck.seq)
			from = stuck.seq + 1
			continue
		}
		if err == nil {
			q.finishLoad()
			if q.store.shared {
				<-ctx.Done()
			}
		}
		f.stop()
		return err
	}
}

// noteUnreadable records that the stream has a record that cannot be read.
func (q *Queue) noteUnreadable() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unreadable = true
}

// outOfOrder reports whether an entry is beyond the part of the stream that was read so far, so that older messages may follow. The caller must hold
// the lock.
func (q *Queue) outOfOrder(e entry) bool { return q.loading == loading && e.seq > q.followed }

// take applies a record that the stream has delivered without its body.
func (q *Queue) take(m *nats.Msg, seq uint64) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r, err := decodeHeader(token, m.Header)
	at, ok := parseSlot(token)
	if err == nil && r.kind == recordCleared {
		q.takeFloor(seq)
	}
	size := len(m.Data)
	if n, err := strconv.Atoi(m.Header.Get(headerSize)); err == nil {
		size = n
	}
	size = q.recordSize(size)
	q.mu.Lock()
	q.noteFollowed(seq)
	q.logBytes += int64(size)
	if now := time.Now(); q.store.shared && now.Sub(q.marks[1].at) >= q.store.quiet {
		q.marks = [2]mark{q.marks[1], {now, q.followed}}
	}
	void := seq < q.floor
	switch {
	case err == nil && r.kind == recordCleared, err != nil && void:
	case err == nil && ok:
		before := q.index.live
		q.applyLocked(at, seq, size, &r)
		if n := q.index.live; q.loading == loading && n > before && n&(n-1) == 0 { // at 1, 2, 4, 8, ... messages
			q.announce()
		}
		if q.store.shared {
			q.compactIfDue()
		}
	case ok:
		defer q.setAside(at, seq, err)
	default:
		q.unreadable = true
		q.logger().Warn("the queue's stream has a record that does not belong to a message", "subject", m.Subject, "seq", seq)
	}
	q.mu.Unlock()
}

// headerSize is the header with the length of a body that JetStream does not deliver.
const headerSize = "Nats-Msg-Size"

// announce wakes callers that wait for the index to grow. The caller must hold the lock.
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
	q.compactIfDue()
}

// failLoad returns the error to waiting callers, and lets the next caller retry.
func (q *Queue) failLoad(err error) {
	if isNoStream(err) {
		err = q.streamMissing(context.Background())
	} else if !errors.Is(err, ErrStorage) {
		err = fmt.Errorf("%w: reading the stream: %w", ErrUnavailable, err)
	}
	q.logger().Warn("a queue could not be read", "err", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop = nil
	q.loading, q.loadErr = unloaded, err
	q.announce()
}

// isNoStream reports whether err is the NATS client's error for a stream that does not exist.
func isNoStream(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrStreamNotFound) ||
		errors.Is(err, errNoStream) || errors.Is(err, nats.ErrNoResponders)
}
