package state

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Peek returns up to n visible messages without changing them. They carry no receipt that a caller may use.
func (q *Queue) Peek(ctx context.Context, n int, now time.Time) ([]Message, error) {
	return q.peek(ctx, n, now, now.UnixNano())
}

// PeekAll is like Peek and includes hidden messages, in the order in which they become visible. It omits messages that are currently being
// handed out.
func (q *Queue) PeekAll(ctx context.Context, n int, now time.Time) ([]Message, error) {
	return q.peek(ctx, n, now, math.MaxInt64)
}

// Position is the position of a message in the order in which messages become visible. The zero value is before all.
type Position struct {
	Visible  int64  // when the message becomes visible, in nanoseconds since 1970
	Sequence uint64 // of the message's record
}

// before reports whether a message comes after the position.
func (p Position) before(e *cell) bool {
	if p.Visible != e.visible {
		return p.Visible < e.visible
	}
	return p.Sequence < e.seq()
}

// PeekPage is PeekAll for the messages after a position. It returns the position of the page's last message, or the zero value if no more messages
// follow. It looks at the index of all messages, which takes some 10 ms for a million.
func (q *Queue) PeekPage(ctx context.Context, n int, after Position, now time.Time) ([]Message, Position, error) {
	if err := q.loss(); err != nil {
		return nil, Position{}, err
	}
	if err := q.load(); err != nil {
		return nil, Position{}, err
	}
	for {
		entries, more, err := q.page(ctx, n, after, now)
		if err != nil || len(entries) == 0 {
			return nil, Position{}, err
		}
		found, gone, err := q.show(ctx, entries, now, math.MaxInt64)
		if len(found) > 0 || err != nil || !gone {
			return found, more, err
		}
	}
}

// page returns the first n entries after a position, and the position of the last of them if more follow. It waits until the index is loaded.
func (q *Queue) page(ctx context.Context, n int, after Position, now time.Time) ([]entry, Position, error) {
	for {
		q.mu.Lock()
		done, progress, err := q.loading != loading, q.progress, q.loadErr
		if done {
			defer q.mu.Unlock()
			entries := q.index.page(n+1, after, now.UnixNano())
			if len(entries) <= n {
				return entries, Position{}, err
			}
			entries = entries[:n]
			return entries, q.index.position(entries[n-1]), err
		}
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, Position{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// peek returns messages that are visible at until. It searches again if some of the messages that it found no longer exist.
func (q *Queue) peek(ctx context.Context, n int, now time.Time, until int64) ([]Message, error) {
	if err := q.loss(); err != nil {
		return nil, err
	}
	if err := q.load(); err != nil {
		return nil, err
	}
	for confirmed := false; ; {
		entries, err := q.shown(ctx, n, now, until)
		if err == nil && len(entries) == 0 && !confirmed {
			if err, confirmed = q.catchUp(ctx), true; err == nil {
				continue
			}
		}
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		found, gone, err := q.show(ctx, entries, now, until)
		if len(found) > 0 || err != nil || !gone {
			return found, err
		}
	}
}

// shown returns the first n entries of the index that are visible at until. While the index is being loaded it waits until there are n.
func (q *Queue) shown(ctx context.Context, n int, now time.Time, until int64) ([]entry, error) {
	for {
		q.mu.Lock()
		entries := q.index.peek(n, until, now.UnixNano())
		if i := slices.IndexFunc(entries, q.outOfOrder); i >= 0 {
			entries = entries[:i]
		}
		done, progress, err := q.loading != loading, q.progress, q.loadErr
		q.mu.Unlock()
		if len(entries) >= n || done {
			if len(entries) > 0 {
				err = nil
			}
			return entries, err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// show reads the messages of entries. gone is set if some no longer exist; the index was updated then.
func (q *Queue) show(ctx context.Context, entries []entry, now time.Time, until int64) (found []Message, gone bool, failure error) {
	reads := make([]pending, len(entries))
	for i, e := range entries {
		reads[i] = q.store.client.last(q.stream, q.subject(e.slot))
	}
	found = make([]Message, 0, len(entries))
	for i, e := range entries {
		current, err := q.read(ctx, reads[i], e)
		if err != nil {
			if errors.Is(err, ErrMessageNotFound) || errors.Is(err, errSetAside) {
				gone = true
			} else {
				failure = err
			}
			continue
		}
		s, _, err := Next(&current.state, Event{Kind: Look}, now.UnixNano())
		if until > now.UnixNano() && errors.Is(err, ErrNotVisible) {
			s, err = current.state, nil
		}
		if err == nil {
			found = append(found, Message{ID: makeID(e.slot, current.nonce), State: s, Receipt: current.receiptNumber(), Body: current.body})
		}
	}
	if len(found) > 0 {
		failure = nil
	}
	return found, gone, failure
}
