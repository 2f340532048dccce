package state

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// claimRounds is the maximum number of times that Get looks for other candidates because another front-end took those it tried.
	claimRounds = 8
	// sweepPause is the minimum time between two searches for expired messages.
	sweepPause = 10 * time.Second
)

// Get claims up to n visible messages for the duration visibility.
func (q *Queue) Get(ctx context.Context, n int, visibility time.Duration, now time.Time) ([]Message, error) {
	if err := q.usable(ctx); err != nil {
		return nil, err
	}
	if err := q.load(); err != nil {
		return nil, err
	}
	found := make([]Message, 0, min(n, 32))
	var failure error
	confirmed := false // the index had all records of the stream
	for lost := 0; len(found) < n && lost < claimRounds && failure == nil; {
		candidates, err := q.candidates(ctx, n-len(found), now)
		if err != nil {
			failure = err
			break
		}
		if len(candidates) == 0 {
			if len(found) > 0 || confirmed {
				break
			}
			failure, confirmed = q.catchUp(ctx), true
			continue
		}
		var raced bool
		if found, raced, failure = q.claim(ctx, found, candidates, visibility, now); raced {
			lost++
		}
	}
	if len(found) == 0 {
		return nil, failure
	}
	newest := uint64(0)
	for i := range found {
		newest = max(newest, uint64(found[i].Receipt))
	}
	// Return the claimed messages even if the rest failed: otherwise they would only be hidden.
	return found, q.sync(ctx, newest)
}

// candidates takes up to n visible entries out of the heap. While the index is being loaded it waits until there are some that are as old as the
// part of the stream that was read, or until there cannot be any.
func (q *Queue) candidates(ctx context.Context, n int, now time.Time) ([]entry, error) {
	at := now.UnixNano()
	var found []entry
	q.mu.Lock()
	q.index.sweep(at, int64(sweepPause))
	for {
		for len(found) < n {
			e, ok := q.index.claim(at)
			if !ok {
				break
			}
			if q.outOfOrder(e) {
				q.index.restore(e.slot, e.seq)
				break
			}
			found = append(found, e)
		}
		if len(found) > 0 || q.loading != loading {
			err := q.loadErr
			if len(found) > 0 {
				err = nil
			}
			q.mu.Unlock()
			return found, err
		}
		progress := q.progress
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
		q.mu.Lock()
	}
}

// claim claims as many candidates as possible and appends them to found. All are read, then all are published: the requests to JetStream
// overlap. raced is set if another front-end took a candidate.
func (q *Queue) claim(ctx context.Context, found []Message, candidates []entry, visibility time.Duration, now time.Time) (_ []Message, raced bool, failure error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	reads := make([]pending, len(candidates))
	for i := range candidates {
		reads[i] = q.store.client.last(q.stream, q.subject(candidates[i].slot))
	}
	type attempt struct {
		message Message
		write   change
	}
	attempts := make([]attempt, 0, len(candidates))
	for i, e := range candidates {
		current, err := q.read(ctx, reads[i], e)
		switch {
		case errors.Is(err, ErrMessageNotFound), errors.Is(err, errSetAside):
			continue
		case err != nil:
			q.restore(e)
			failure = err
			continue
		}
		next, _, err := Next(&current.state, Event{Kind: Claim, Visibility: visibility}, now.UnixNano())
		if err != nil { // another front-end has claimed it, or it expired; the index was updated
			q.restore(entry{slot: e.slot, seq: current.seq})
			raced = true
			continue
		}
		attempts = append(attempts, attempt{
			message: Message{ID: makeID(e.slot, current.nonce), State: next, Body: current.body},
			write:   q.begin(e.slot, current.seq, record{state: next, nonce: current.nonce}, current.body)})
	}
	for _, a := range attempts {
		seq, err := q.finish(ctx, a.write)
		switch {
		case err == nil:
			a.message.Receipt = Receipt(seq)
			found = append(found, a.message)
		case errors.Is(err, ErrReceiptMismatch), errors.Is(err, ErrMessageNotFound), errors.Is(err, errOvertaken):
			raced = true // another front-end was faster; finish has updated the index
		default:
			// It is unknown whether it is claimed: the next attempt determines that.
			q.restore(entry{slot: a.write.slot, seq: a.write.replace})
			failure = err
		}
	}
	return found, raced, failure
}

// restore returns a candidate to the heap.
func (q *Queue) restore(e entry) {
	q.mu.Lock()
	q.index.restore(e.slot, e.seq)
	q.mu.Unlock()
}
