package tabletrigger

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
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// orderedListener is a table trigger that handles the log itself, in order: see InOrder.
type orderedListener struct {
	*listener
	handler handler
	env     *trigger.Environment

	mu     sync.Mutex // guards gaveUp
	gaveUp error
}

// Listen handles the log, and what is moved back from the poison queue.
func (l *orderedListener) Listen(soft, hard context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.Lead(soft, hard, l.followInOrder) })
	err := l.messages.Listen(soft, hard)
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.gaveUp)
}

// followInOrder handles the log while this instance holds the lock.
func (l *orderedListener) followInOrder(soft, hard context.Context) {
	l.retrying(soft, func() error { return l.readInOrder(soft, hard) })
}

// readInOrder handles the log from the recorded position on, until soft is done or a step fails.
func (l *orderedListener) readInOrder(soft, hard context.Context) error {
	position, err := l.position(soft)
	if err != nil {
		return err
	}
	for soft.Err() == nil {
		if l.function.Gate.Paused() {
			l.nudge.Pause(soft, l.clock, l.every)
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
func (l *orderedListener) handleNext(soft, hard context.Context, position string) (string, error) {
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
	changes, page, err := l.feed.states(soft, position, queues.LongWait)
	if err != nil {
		return "", err
	}
	if !page.Known {
		return l.forgotten(page.Position), nil
	}
	if len(changes) == 0 && l.clock.Now().Sub(asked) < queues.MinPollingInterval {
		l.lock.Pause(soft, queues.MinPollingInterval) // The long poll returned at once: the service is stopping.
	}
	if err := fault.Point(pointBeforeChanges); err != nil {
		return "", err
	}
	reached, err := l.handleAll(soft, hard, changes)
	if err == nil {
		reached = page.Position
	}
	return reached, err
}

// handleAll handles changes: those of an entity one after another, those of others at the same time. If it is
// interrupted, it returns the position up to which all changes are handled, empty for none, and the reason.
func (l *orderedListener) handleAll(soft, hard context.Context, changes []loggedChange) (reached string,
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
	slots := make(chan struct{}, l.function.Settings.Parallel)
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
func (l *orderedListener) handleOne(soft, hard context.Context, c loggedChange) error {
	c.Table = l.function.Settings.Table
	s := &l.function.Settings
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
		var permanent *calls.PermanentError
		if errors.As(err, &permanent) || attempt >= s.MaxDequeueCount {
			return l.poison(hard, c.TableChange, attempt, err)
		}
		delay := s.Retry.Delay(attempt)
		var after *calls.RetryAfterError
		if errors.As(err, &after) {
			delay = after.Delay
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

func (l *orderedListener) stuckHandler() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaveUp != nil
}

// poison puts a change that cannot be handled to the poison queue, with the reason.
func (l *orderedListener) poison(ctx context.Context, c bindings.TableChange, attempts int64, last error) error {
	// A stop must not leave the change neither handled nor in the poison queue.
	ctx = context.WithoutCancel(ctx)
	body, err := json.Marshal(message{Type: "TableTrigger", FunctionId: l.function.Name, TableName: c.Table,
		PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag, Change: c.Change})
	var id string
	if err == nil {
		id, err = queues.PutCreating(ctx, l.messages.Poison, base64.StdEncoding.EncodeToString(body))
	}
	if err != nil {
		return fmt.Errorf("put to the poison queue: %w", err)
	}
	reason := fmt.Sprintf("the handler failed %d times", attempts)
	if errors.As(last, new(*calls.PermanentError)) {
		reason = "the handler returned a permanent error"
	}
	l.log.Error("a change of the table cannot be handled; it is in the poison queue", "table", c.Table, "partition_key",
		c.PartitionKey, "row_key", c.RowKey, "change", c.Change,
		"reason", reason)
	l.function.Stats.Poisoned.Add(1)
	now := l.clock.Now()
	l.messages.Record(ctx, poison.Record{
		Queue: l.messages.PoisonName, ID: id, Source: l.messages.Settings.QueueName, Reason: reason, Attempts: attempts,
		Function: l.function.Name,
		Host:     l.env.HostID, Inserted: now, Poisoned: now,
	}, last, l.log)
	return nil
}

// call calls the handler.
func (l *orderedListener) call(hard context.Context, c bindings.TableChange, attempt int64) error {
	i := &trigger.Invocation{ID: uuid.NewString(), RetryCount: int32(attempt - 1),
		MaxRetryCount: int32(l.function.Settings.MaxDequeueCount - 1),
		Metadata: map[string]string{"Table": c.Table, "PartitionKey": c.PartitionKey, "RowKey": c.RowKey,
			"Change": string(c.Change), "ETag": c.ETag}}
	handle := func(ctx context.Context) error { return l.handler(ctx, c) }
	err, gaveUp := l.function.CallAlone(hard, l.env, l.log, i, handle)
	if gaveUp != nil {
		l.mu.Lock()
		l.gaveUp = gaveUp
		l.mu.Unlock()
	}
	return err
}
