package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/microsoft/durabletask-go/api"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
)

// sendParallel bounds the requests of one checkpoint that are under way at once.
const sendParallel = 16

// sendAll sends messages. When it fails some of them may have been sent.
func (b *Backend) sendAll(ctx context.Context, list []record.Outgoing) error {
	toEntities := map[string][]record.Outgoing{} // What one sender sends to one entity arrives in its order.
	together := map[*azqueue.QueueClient][]record.Outgoing{}
	var starts []record.Outgoing
	for _, m := range list {
		if record.IsEntity(m.Instance) && !m.WorkItem {
			toEntities[m.Instance] = append(toEntities[m.Instance], m)
			continue
		}
		if m.Parsed.GetExecutionStarted() != nil {
			starts = append(starts, m)
			continue
		}
		q := b.queueOf(m)
		together[q.Client] = append(together[q.Client], m)
	}
	// Starts go one by one, because each has a row to write first. Messages for one queue share requests.
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sendParallel)
	for _, m := range starts {
		g.Go(func() error {
			if err := fault.Point(pointSend); err != nil {
				return err
			}
			return b.startChild(ctx, m)
		})
	}
	for _, same := range together {
		g.Go(func() error {
			for range same {
				if err := fault.Point(pointSend); err != nil {
					return err
				}
			}
			_, err := b.sendTogether(ctx, same)
			return err
		})
	}
	for _, ordered := range toEntities {
		g.Go(func() error {
			for _, m := range ordered {
				if err := fault.Point(pointSend); err != nil {
					return err
				}
				if err := b.deliver(ctx, m, record.FromHub); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// errLagging means that an instance has ended and its row does not say so yet.
var errLagging = errors.New("the instance has ended, and its row is not up to date")

// startChild creates a sub-orchestration: its row, then the message. It replaces an instance with the ID that has
// ended. If an instance with the ID is running, it sends a failure to the parent.
func (b *Backend) startChild(ctx context.Context, m record.Outgoing) error {
	err := b.tryStartChild(ctx, m)
	for pause := lagFirst; errors.Is(err, errLagging) && pause <= lagLast; pause *= 2 {
		if !sleep(ctx, systemClock{}, pause) {
			return ctx.Err()
		}
		err = b.tryStartChild(ctx, m)
	}
	return err
}

func (b *Backend) tryStartChild(ctx context.Context, m record.Outgoing) error {
	for range record.ReadAttempts {
		row, err := b.instances.Get(ctx, m.Instance)
		if err != nil {
			return err
		}
		etag := azcore.ETag("")
		switch {
		case row == nil:
		case row.StartID == m.ID:
			// The row is of this start: a process has written it, and may have died before it sent the message.
			if m.Rewind != nil {
				err := b.rewind(ctx, m.Instance, *m.Rewind, m.ID)
				if err != nil && !errors.Is(err, record.ErrNotFailed) && !errors.Is(err, api.ErrInstanceNotFound) {
					return err
				}
			}
			_, err := b.send(ctx, m)
			return err
		case !record.IsFinal(row.Status()):
			// The parent may know the result of the instance already and start another under its ID, before the row has
			// followed.
			if ended, err := b.hasEnded(ctx, m.Instance, row.StartID); err != nil {
				return err
			} else if ended {
				return fmt.Errorf("durable: start %q: %w", m.Instance, errLagging)
			}
			if m.Parsed.GetExecutionStarted().ParentInstance == nil {
				b.log.Warn("an entity has started a workflow under an ID that is in use; it is not started", "instance",
					m.Instance)
				return nil
			}
			return b.refuseChild(ctx, m.Message)
		default:
			etag = row.ETag
		}
		if v, _ := event.PayloadOf(m.Parsed); v != nil && len(v.Value) > record.InlineLimit {
			m.Blob = m.PayloadName(v.Value)
			if err := b.payloads.Put(ctx, m.Blob, v.Value); err != nil {
				return err
			}
		}
		// The row comes first: a start whose row is not there counts as purged, and is dropped.
		_, err = b.instances.Start(ctx, m.Instance, m.Parsed, m.Blob, etag)
		if errors.Is(err, record.ErrExists) {
			continue // Another request has the row now.
		}
		if err != nil {
			return err
		}
		_, err = b.send(ctx, m)
		return err
	}
	return fmt.Errorf("durable: start %q: %w", m.Instance, record.ErrExists)
}

// hasEnded reports whether the history of an instance's start has ended. It is committed, and the parent has the
// result, before the row says so.
func (b *Backend) hasEnded(ctx context.Context, instance, startID string) (bool, error) {
	h, err := b.histories.Read(ctx, instance)
	var corrupt *record.CorruptError
	if errors.As(err, &corrupt) {
		return false, nil // The row is the only source. The error is not one of the parent's history.
	}
	return err == nil && h.StartID == startID && h.Completed(), err
}

// refuseChild reports to a parent that its sub-orchestration cannot start, because an instance with the ID is running.
func (b *Backend) refuseChild(ctx context.Context, m *record.Message) error {
	parent := m.Parsed.GetExecutionStarted().GetParentInstance()
	e := event.New("subOrchestrationInstanceFailed", -1, b.clock.Now())
	x := e.GetSubOrchestrationInstanceFailed()
	x.TaskScheduledId = parent.GetTaskScheduledId()
	x.FailureDetails = event.NewFailure("OrchestrationAlreadyExists",
		fmt.Sprintf("an instance with the ID %q is running", m.Instance))
	_, err := b.send(ctx, record.Outgoing{Message: record.ToParent(parent.GetOrchestrationInstance(), e)})
	return err
}

// queueOf returns the queue that a message is for.
func (b *Backend) queueOf(m record.Outgoing) inflight.Queue {
	if m.WorkItem {
		return b.workItems
	}
	return b.control[record.PartitionOf(m.Instance, len(b.control))]
}

// send sends a message to the queue that it is for.
func (b *Backend) send(ctx context.Context, m record.Outgoing) (inflight.Sent, error) {
	list, err := b.sendTogether(ctx, []record.Outgoing{m})
	if err != nil {
		return inflight.Sent{}, err
	}
	return list[0], nil
}

// sendTogether sends messages, one at least, that are for the same queue. When it fails some of them may have been
// sent.
func (b *Backend) sendTogether(ctx context.Context, list []record.Outgoing) ([]inflight.Sent, error) {
	q, texts := b.queueOf(list[0]), make([]messages.New, len(list))
	g, encoding := errgroup.WithContext(ctx) // large payloads go to blobs
	g.SetLimit(sendParallel)
	for i, m := range list {
		encode := func() (err error) {
			texts[i] = messages.New{Delay: m.Delay}
			texts[i].Text, err = b.payloads.Encode(encoding, m.Message)
			return err
		}
		// The last one is encoded here, so that a single message needs no goroutine.
		if i == len(list)-1 {
			if err := encode(); err != nil {
				_ = g.Wait()
				return nil, err
			}
			continue
		}
		g.Go(encode)
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	put, err := q.PutAll(ctx, texts)
	if err != nil && b.remake(ctx, err) {
		put, err = q.PutAll(ctx, texts)
	}
	if err != nil {
		return nil, err
	}
	all := make([]inflight.Sent, len(list))
	for i, p := range put {
		all[i] = inflight.Sent{Queue: q, ID: p.ID, Receipt: p.Receipt, Text: texts[i].Text}
	}
	return all, nil
}

// Bounds of the pauses while a row lags behind its history. If the row's owner has crashed, the row lags until another
// owner receives the messages; the parent's checkpoint is then repeated.
const (
	lagFirst = 20 * time.Millisecond // doubled each time
	lagLast  = 640 * time.Millisecond
)
