package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
)

const (
	// maxPending bounds the unfinished events of a subscription that are in memory; others wait in the log. maxReadBytes
	// bounds one read.
	maxPending   = 256
	maxReadBytes = 1 << 20
	// maxAttempts bounds the attempts of one subscription at the same time.
	maxAttempts = 8
	// storePause is the least time between two times that progress is stored.
	storePause = 100 * time.Millisecond
	// pollPause bounds the time between two looks at the log and the clock, which may have been set.
	pollPause = time.Second
)

// runner delivers the events of one subscription.
type runner struct {
	manager *Manager
	log     *eventlog.Log // of the account
	sub     Subscription

	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex // guards the next fields
	lane     lane
	state    string
	code     string    // confirms the endpoint by hand
	codeEnds time.Time // until when
	changed  chan struct{}
	unstored bool
	stats    Stats
}

// Stats counts what became of the events of a subscription since the start of the process.
type Stats struct {
	Delivered int64 `json:"delivered"`
	// Failed are attempts, the others events.
	Failed       int64 `json:"failedAttempts"`
	DeadLettered int64 `json:"deadLettered"`
	Dropped      int64 `json:"dropped"`
	// LastError is the last attempt's that failed.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}

// attempt is an attempt that has ended.
type attempt struct {
	batch  []*pending
	result result
}

// load reads the events of a stored lane. Events that the log does not have any more are finished.
func (r *runner) load(progress []byte) error {
	if len(progress) == 0 { // a repair has dropped it
		r.manager.Logger.Error("the progress of an event subscription is lost; all events in the log are delivered again",
			"account", r.sub.Account, "subscription", r.sub.Name)
		return nil
	}
	if err := json.Unmarshal(progress, &r.lane); err != nil {
		return err
	}
	kept := r.lane.Pending[:0]
	for _, p := range r.lane.Pending {
		b, ok, err := r.log.Get(r.sub.Account, p.Number)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		e, ok, err := eventOf(&b)
		if err != nil {
			return err
		}
		if ok {
			p.event, p.size = &e, len(e.Data)
			kept = append(kept, p)
		}
	}
	r.lane.Pending = kept
	return nil
}

// nudge makes the runner look for work.
func (r *runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run delivers until ctx is done. Attempts under way are then cancelled, and are not counted.
func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	results := make(chan attempt)
	running := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	var stored time.Time
	for ctx.Err() == nil {
		r.read()
		for running < maxAttempts {
			batch := r.next()
			if batch == nil {
				break
			}
			running++
			go func() { results <- attempt{batch, r.attempt(ctx, batch)} }()
		}
		pause := r.pause()
		if left := storePause - time.Since(stored); left <= 0 {
			r.store()
			stored = time.Now()
		} else if r.isUnstored() {
			pause = min(pause, left)
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		case a := <-results:
			running--
			r.apply(ctx, a)
		}
	}
	// The channel has no buffer: each attempt waits until its result is received. ctx is done, which has cancelled them.
	for ; running > 0; running-- {
		r.apply(ctx, <-results)
	}
	r.store()
}

// read fills the lane from the log.
func (r *runner) read() {
	for {
		r.mu.Lock()
		position, room := r.lane.Position, maxPending-len(r.lane.Pending)
		r.mu.Unlock()
		if room <= 0 {
			return
		}
		list, upTo, err := r.readLog(position, room)
		if err != nil {
			r.manager.Logger.Error("reading the event log failed", "account", r.sub.Account, "subscription", r.sub.Name, "err",
				err)
			return
		}
		r.mu.Lock()
		for _, e := range list {
			if e != nil && r.sub.matches(e) {
				r.lane.add(e, len(e.Data))
			}
		}
		r.lane.Position = upTo
		switch {
		case len(list) > 0:
			r.noteChange()
		case upTo != position:
			r.signal() // Numbers that are no events need not be stored.
		}
		r.mu.Unlock()
		if len(list) == 0 {
			return
		}
	}
}

// readLog returns the events in the log after a position; nil for an entry that is no event.
func (r *runner) readLog(position uint64, room int) (list []*Event, upTo uint64, err error) {
	entries, upTo, err := r.log.Read(r.sub.Account, position, room, maxReadBytes)
	if err != nil {
		return nil, 0, err
	}
	for i := range entries {
		e, ok, err := eventOf(&entries[i])
		switch {
		case err != nil:
			return nil, 0, err
		case ok:
			list = append(list, &e)
		default:
			list = append(list, nil)
		}
	}
	return list, upTo, nil
}

// noteChange makes the lane be stored, and wakes those who wait for progress. r.mu is held.
func (r *runner) noteChange() {
	r.unstored = true
	r.signal()
}

// signal wakes those who wait for progress. r.mu is held.
func (r *runner) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// next returns the events of the next attempt, nil for none.
func (r *runner) next() []*pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != Succeeded {
		return nil
	}
	now := r.manager.Now()
	for i := 0; i < len(r.lane.Pending); i++ {
		if p := r.lane.Pending[i]; !p.busy && r.sub.expired(p, now) {
			if r.count(r.lane.endDelivery(&r.sub, p, tooOld, now)) == dropped {
				// The event was removed, and the next one is at its index now.
				i--
			}
		}
	}
	return r.lane.take(now, r.sub.MaxEventsPerBatch, r.sub.PreferredBatchSize<<10)
}

// pause is the time that nothing has to be done, if nothing happens.
func (r *runner) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, ok := r.lane.due()
	if !ok || r.state != Succeeded {
		return pollPause
	}
	return min(max(next.Sub(r.manager.Now()), time.Millisecond), pollPause)
}

// attempt makes one attempt with a batch from next.
func (r *runner) attempt(ctx context.Context, batch []*pending) result {
	if batch[0].Dead != "" {
		return result{err: r.manager.couriers.storeDeadLetter(ctx, &r.sub, batch[0])}
	}
	return r.manager.couriers.deliver(ctx, &r.sub, batch)
}

// apply applies the result of an attempt.
func (r *runner) apply(ctx context.Context, a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, jitter := r.manager.Now(), r.manager.Jitter()
	if a.batch[0].Dead == "" && !a.result.ok() && ctx.Err() == nil {
		r.stats.Failed++
		r.stats.LastError, r.stats.LastErrorTime = a.result.text(), now
	}
	for _, p := range a.batch {
		switch {
		// The stop has cancelled the attempt, which says nothing about the endpoint. It is made again after the next start.
		case ctx.Err() != nil && a.result.err != nil:
			p.busy = false
		case p.Dead != "":
			r.count(r.lane.deadLetterStored(p, a.result.err, now))
		default:
			r.count(r.lane.attempted(&r.sub, p, a.result, now, jitter))
		}
	}
	r.noteChange()
}

// count counts a verdict and returns it. r.mu is held.
func (r *runner) count(v verdict) verdict {
	switch v {
	case delivered:
		r.stats.Delivered++
	case deadLettered:
		r.stats.DeadLettered++
	case dropped:
		r.stats.Dropped++
		r.manager.Logger.Warn("an event was dropped: it could not be delivered", "account", r.sub.Account, "subscription",
			r.sub.Name, "last_error", r.stats.LastError)
	}
	if v != retried {
		r.noteChange()
	}
	return v
}

func (r *runner) isUnstored() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unstored
}

// store stores the lane, if it has changed. What a failure leaves unstored is stored later, or delivered again after a
// restart.
func (r *runner) store() {
	r.mu.Lock()
	changed, progress := r.unstored, mustMarshal(&r.lane)
	// This is cleared with the copy of the lane under one lock: a change after it sets it again. finished belongs to the
	// same copy, since the log may be trimmed up to it once the copy is stored.
	r.unstored = false
	finished := r.lane.finished()
	r.mu.Unlock()
	if !changed {
		return
	}
	switch err := r.log.Set(r.sub.Account, r.sub.Name, nil, progress); {
	case errors.Is(err, eventlog.ErrSubscriptionNotFound): // It is being removed.
	case err != nil:
		r.manager.Logger.Error("storing the progress of an event subscription failed", "account", r.sub.Account,
			"subscription", r.sub.Name, "err", err)
		r.mu.Lock()
		r.unstored = true
		r.mu.Unlock()
	default:
		r.manager.stored(r, finished)
	}
}

// record is the stored configuration.
type record struct {
	Subscription Subscription
	State        string
	Code         string    `json:",omitempty"`
	CodeEnds     time.Time `json:",omitzero"`
}

// Status is a subscription with its state.
type Status struct {
	Subscription
	State string `json:"provisioningState"`
	Stats
	// Pending are the events that were read from the log and are not finished: at most 256. Oldest is the time of the
	// oldest one.
	Pending int       `json:"pending"`
	Oldest  time.Time `json:"oldestPending,omitzero"`
}

// status shows the endpoint without its query, which often has a key.
func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Subscription: r.sub, State: r.state, Stats: r.stats, Pending: len(r.lane.Pending)}
	if len(r.lane.Pending) > 0 {
		s.Oldest = r.lane.Pending[0].event.Time
	}
	if u, err := url.Parse(s.Endpoint); err == nil && u.RawQuery != "" {
		u.RawQuery = ""
		s.Endpoint = u.String()
	}
	return s
}
