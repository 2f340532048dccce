package workers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
)

// orderedTableListener is a table trigger that handles the log itself, in order: see InOrder.
type orderedTableListener struct {
	*tableListener
	handler TableHandler
	app     *App
	bound   bound
	wrapped Handler

	mu     sync.Mutex // guards gaveUp
	gaveUp error
}

// listen handles the log, and what is moved back from the poison queue.
func (l *orderedTableListener) listen(soft, hard context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.lead(soft, hard, l.followInOrder) })
	err := l.messages.listen(soft, hard)
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.gaveUp)
}

// followInOrder handles the log while this instance holds the lock.
func (l *orderedTableListener) followInOrder(soft, hard context.Context) {
	l.retrying(soft, func() error { return l.readInOrder(soft, hard) })
}

// readInOrder handles the log from the recorded position on, until soft is done or a step fails.
func (l *orderedTableListener) readInOrder(soft, hard context.Context) error {
	position, err := l.position(soft)
	if err != nil {
		return err
	}
	for soft.Err() == nil {
		if l.function.gate.paused() {
			l.nudge.pause(soft, l.clock, l.every)
			continue
		}
		next, err := l.handleNext(soft, hard, position)
		if next != "" && next != position {
			// What was handled is recorded, also if the app stops.
			if err := l.moveTo(context.WithoutCancel(hard), next); err != nil {
				return err
			}
			position = next
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handleNext handles a page of the log, or the whole table, and returns the position up to which all changes are
// handled. If it fails, that may be before the end of the page, or empty.
func (l *orderedTableListener) handleNext(soft, hard context.Context, position string) (string, error) {
	if next, whole := strings.CutPrefix(position, wholeTable); whole {
		err := l.feed.everything(soft, func(all []loggedChange) error {
			_, err := l.handleAll(soft, hard, all)
			return err
		})
		if err != nil {
			return "", err
		}
		return next, nil
	}
	asked := l.clock.Now()
	changes, page, err := l.feed.states(soft, position, longWait)
	if err != nil {
		return "", err
	}
	if !page.known {
		return l.forgotten(page.position), nil
	}
	if len(changes) == 0 && l.clock.Now().Sub(asked) < minPollingInterval {
		l.lock.pause(soft, minPollingInterval) // The long poll returned at once: the service is stopping.
	}
	if err := fault.Point(pointBeforeChanges); err != nil {
		return "", err
	}
	reached, err := l.handleAll(soft, hard, changes)
	if err == nil {
		reached = page.position
	}
	return reached, err
}

// handleAll handles changes: those of an entity one after another, those of others at the same time. If it is
// interrupted, it returns the position up to which all changes are handled, empty for none, and the reason.
func (l *orderedTableListener) handleAll(soft, hard context.Context, changes []loggedChange) (reached string,
	err error) {
	// A chain has the changes of one entity. Chains begin in the order of their first changes.
	var order [][2]string
	chains := map[[2]string][]int{}
	for i, c := range changes {
		key := [2]string{c.PartitionKey, c.RowKey}
		if chains[key] == nil {
			order = append(order, key)
		}
		chains[key] = append(chains[key], i)
	}
	done := make([]bool, len(changes)) // each element belongs to the goroutine of its chain until wg.Wait
	slots := make(chan struct{}, l.function.settings.parallel)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards err
	for _, key := range order {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, i := range chains[key] {
				if e := l.handleOne(soft, hard, changes[i]); e != nil {
					mu.Lock()
					err = errors.Join(err, e)
					mu.Unlock()
					return
				}
				done[i] = true
			}
		})
	}
	wg.Wait()
	if err == nil {
		return "", nil
	}
	// Changes behind the first that is not done may be done already. They come again: every change is handled at least
	// once.
	if first := slices.Index(done, false); first > 0 {
		reached = changes[first-1].position
	}
	return reached, err
}

// errBrokenOff: the app stops, or the lock is lost.
var errBrokenOff = errors.New("workers: the change is left for later")

// handleOne handles a change until it is done with: the handler succeeded, or the change is in the poison queue.
func (l *orderedTableListener) handleOne(soft, hard context.Context, c loggedChange) error {
	c.Table = l.function.settings.table
	s := &l.function.settings
	for attempt := int64(1); ; attempt++ {
		// A stuck handler may still act on its change, so that this instance begins with no other.
		if soft.Err() != nil || l.stuckHandler() {
			return errBrokenOff
		}
		err := l.call(hard, c.TableChange, attempt)
		if err == nil {
			return nil
		}
		// An attempt that the stop has cut off is not the fault of the change, which must not go to the poison queue for
		// it.
		if hard.Err() != nil || l.stuckHandler() {
			return errBrokenOff
		}
		var permanent *permanentError
		if errors.As(err, &permanent) || attempt >= s.maxDequeueCount {
			return l.poison(hard, c.TableChange, attempt, err)
		}
		delay := s.retry.Delay(attempt)
		var after *retryAfterError
		if errors.As(err, &after) {
			delay = after.delay
		}
		if delay > 0 {
			timer := l.clock.NewTimer(delay)
			select {
			case <-timer.C():
			case <-soft.Done():
			}
			timer.Stop()
		}
	}
}

func (l *orderedTableListener) stuckHandler() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaveUp != nil
}

// poison puts a change that cannot be handled to the poison queue, with the reason.
func (l *orderedTableListener) poison(ctx context.Context, c TableChange, attempts int64, last error) error {
	ctx = context.WithoutCancel(ctx)
	body, err := json.Marshal(tableMessage{Type: "TableTrigger", FunctionId: l.function.name, TableName: c.Table,
		PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag, Change: c.Change})
	var id string
	if err == nil {
		id, err = putCreating(ctx, l.messages.poison, base64.StdEncoding.EncodeToString(body))
	}
	if err != nil {
		return fmt.Errorf("put to the poison queue: %w", err)
	}
	reason := fmt.Sprintf("the handler failed %d times", attempts)
	if errors.As(last, new(*permanentError)) {
		reason = "the handler returned a permanent error"
	}
	l.log.Error("a change of the table cannot be handled; it is in the poison queue", "table", c.Table, "partition_key",
		c.PartitionKey, "row_key", c.RowKey, "change", c.Change,
		"reason", reason)
	l.function.stats.poisoned.Add(1)
	now := l.clock.Now()
	l.messages.record(ctx, poison.Record{
		Queue: l.messages.poisonName, ID: id, Source: l.messages.settings.queueName, Reason: reason, Attempts: attempts,
		Function: l.function.name,
		Host:     l.app.config.HostID, Inserted: now, Poisoned: now,
	}, last, l.log)
	return nil
}

// call calls the handler.
func (l *orderedTableListener) call(hard context.Context, c TableChange, attempt int64) error {
	stats := &l.function.stats
	stats.inFlight.Add(1)
	defer stats.inFlight.Add(-1)
	ic := &InvocationContext{
		InvocationID: uuid.NewString(), FunctionID: l.app.config.HostID + "/" + l.function.name,
		FunctionName: l.function.name, TriggerType: l.function.trigger,
		TriggerMetadata: map[string]string{"Table": c.Table, "PartitionKey": c.PartitionKey, "RowKey": c.RowKey,
			"Change": string(c.Change), "ETag": c.ETag},
		RetryContext: RetryContext{RetryCount: int32(attempt - 1),
			MaxRetryCount: int32(l.function.settings.maxDequeueCount - 1)},
	}
	ic.call = func(ctx context.Context) error { return l.handler(ctx, c) }
	defer stats.call(ic, l.clock)()
	log := l.log.With("invocation_id", ic.InvocationID)
	err := supervise(hard, supervision{clock: l.clock, timeout: l.function.settings.timeout,
		stuck: l.app.config.StuckTimeout, log: log}, func(ctx context.Context) error {
		return contain(func() error {
			return l.wrapped(bind(NewContext(ctx, ic), l.bound.app, l.bound.storage), &MiddlewareContext{ic})
		})
	})
	if errors.Is(err, ErrStuck) {
		stats.stuck.Add(1)
		l.mu.Lock()
		l.gaveUp = fmt.Errorf("function %q: %w", l.function.name, ErrStuck)
		l.mu.Unlock()
	}
	if err == nil {
		stats.end(ic, l.clock.Now(), nil)
		return nil
	}
	stats.end(ic, l.clock.Now(), err)
	stats.fail(l.clock.Now(), err)
	logFailure(log, err)
	return err
}
