package demo

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// parallel is the number of requests that the demonstration itself has under way.
const parallel = 8

// queues are a run's queue and its poison queue.
type queues struct {
	service *azqueue.ServiceClient
	name    string
}

func (q queues) poison() string { return q.name + poison.Suffix }

func (q queues) create(ctx context.Context) error {
	if _, err := q.service.CreateQueue(ctx, q.name, nil); err != nil {
		return fmt.Errorf("create queue %s: %w", q.name, err)
	}
	return nil
}

// remove deletes the queues. Missing queues are not an error.
func (q queues) remove(ctx context.Context) (err error) {
	for _, name := range []string{q.name, q.poison()} {
		if _, e := q.service.DeleteQueue(ctx, name, nil); e != nil && !notFound(e) {
			err = errors.Join(err, fmt.Errorf("delete queue %s: %w", name, e))
		}
	}
	return err
}

func notFound(err error) bool { return statusOf(err) == http.StatusNotFound }

// put puts a message for every body.
func (q queues) put(ctx context.Context, bodies [][]byte) error {
	client := q.service.NewQueueClient(q.name)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
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

// waiting returns how many messages the queue holds, also invisible ones.
func (q queues) waiting(ctx context.Context) (int, error) { return q.count(ctx, q.name) }

func (q queues) count(ctx context.Context, name string) (int, error) {
	p, err := q.service.NewQueueClient(name).GetProperties(ctx, nil)
	switch {
	case queueerror.HasCode(err, queueerror.QueueNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look at queue %s: %w", name, err)
	}
	return int(ptr.Value(p.ApproximateMessagesCount)), nil
}

// visible reports whether the queue has a message to give, to confirm that an approximate count of 0 is true.
func (q queues) visible(ctx context.Context) (bool, error) {
	p, err := q.service.NewQueueClient(q.name).PeekMessages(ctx,
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](1)})
	if err != nil {
		return false, fmt.Errorf("peek at queue %s: %w", q.name, err)
	}
	return len(p.Messages) > 0, nil
}

// problems says what is wrong at the end of a run.
func (q queues) problems(ctx context.Context) (problems []string, err error) {
	left, err := q.waiting(ctx)
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
