package rig

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers"
)

// Parallel is the number of requests that the demonstration itself has under way.
const Parallel = 8

// Queues are a run's queue and its poison queue.
type Queues struct {
	Service *azqueue.ServiceClient
	Name    string
}

func (q Queues) poison() string { return q.Name + poison.Suffix }

// Create creates the queue. The poison queue is made by the first message that goes there.
func (q Queues) Create(ctx context.Context) error {
	if _, err := q.Service.CreateQueue(ctx, q.Name, nil); err != nil {
		return fmt.Errorf("create queue %s: %w", q.Name, err)
	}
	return nil
}

// Remove deletes the queues. Missing queues are not an error.
func (q Queues) Remove(ctx context.Context) (err error) {
	for _, name := range []string{q.Name, q.poison()} {
		if _, e := q.Service.DeleteQueue(ctx, name, nil); e != nil && !NotFound(e) {
			err = errors.Join(err, fmt.Errorf("delete queue %s: %w", name, e))
		}
	}
	return err
}

// NotFound reports whether a request was refused because what it names does not exist.
func NotFound(err error) bool { return StatusOf(err) == http.StatusNotFound }

// put puts a message for every body.
func (q Queues) put(ctx context.Context, bodies [][]byte) error {
	client := q.Service.NewQueueClient(q.Name)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Parallel)
	for _, body := range bodies {
		g.Go(func() error {
			if _, err := client.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body), nil); err != nil {
				return fmt.Errorf("put a message: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Waiting returns how many messages the queue holds, also invisible ones.
func (q Queues) Waiting(ctx context.Context) (int, error) { return q.count(ctx, q.Name) }

func (q Queues) count(ctx context.Context, name string) (int, error) {
	p, err := q.Service.NewQueueClient(name).GetProperties(ctx, nil)
	switch {
	case queueerror.HasCode(err, queueerror.QueueNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look at queue %s: %w", name, err)
	}
	return int(ptr.Value(p.ApproximateMessagesCount)), nil
}

// visible reports whether the queue has a message to give, to confirm that an approximate count of 0 is true.
func (q Queues) visible(ctx context.Context) (bool, error) {
	p, err := q.Service.NewQueueClient(q.Name).PeekMessages(ctx,
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](1)})
	if err != nil {
		return false, fmt.Errorf("peek at queue %s: %w", q.Name, err)
	}
	return len(p.Messages) > 0, nil
}

// problems says what is wrong at the end of a run.
func (q Queues) problems(ctx context.Context) (problems []string, err error) {
	left, err := q.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	more, err := q.visible(ctx)
	if err != nil {
		return nil, err
	}
	if left > 0 || more {
		problems = append(problems, fmt.Sprintf("the queue is not empty: %d messages", max(left, 1)))
	}
	poisoned, err := q.count(ctx, q.poison())
	if err != nil {
		return nil, err
	}
	if poisoned > 0 {
		problems = append(problems, fmt.Sprintf("%d messages are in the poison queue", poisoned))
	}
	return problems, nil
}

// RoundItems is the number of items that a round has: enough of each kind for two deaths.
const RoundItems = 36

// RunSweeping runs an app and sweeps repeatedly at the same time. The role's timer would let one instance sweep, by a
// lease that outlives a killed process for longer than a demonstration should take; sweepers are safe without it.
func RunSweeping(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings,
	longest time.Duration, sweep func(context.Context)) error {
	sweeping, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sweeping.Err() == nil {
			if !s.Story {
				sweep(sweeping)
			} else if left, err := (Queues{Service: storage.Queues, Name: s.Queue}).Waiting(sweeping); left == 0 &&
				err == nil {
				// The end of the worker does not cut off a request whose effect is there: the story would lack it.
				sweep(context.WithoutCancel(sweeping))
			}
			select {
			case <-time.After(longest/2 + rand.N(longest/2)):
			case <-sweeping.Done():
			}
		}
	})
	err := app.Run(ctx)
	stop()
	wg.Wait()
	return err
}

// Acknowledge deletes a message, which a handler must leave to the runtime: from then on nothing reminds of the work.
func Acknowledge(ctx context.Context, storage *workers.Storage, queue string, m workers.QueueMessage) error {
	_, err := storage.Queues.NewQueueClient(queue).DeleteMessage(ctx, m.Id, m.PopReceipt, nil)
	return err
}

// KeyMessage is a message: make the change of a record.
type KeyMessage struct{ PartitionKey, RowKey string }
