package logstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// concurrency is the number of messages that a registered role has in work: they wait together for the blob that they
// become lines of, so that at most this many are written every WithFlushEvery.
const concurrency = 1024

// Register makes the writer the handler of a queue whose messages are Records in JSON. A message is deleted once its
// line is in a blob. The writer is to be closed after the app has stopped.
func Register(app *workers.App, name string, w *Writer, options ...workers.QueueOption) *workers.Function {
	return RegisterFunc(app, name, w, func(r Record) (Record, error) { return r, nil }, options...)
}

// RegisterFunc makes the writer the handler of a queue with messages of one's own type, of which record makes a line.
// An error of record sends the message to the poison queue.
func RegisterFunc[T any](app *workers.App, name string, w *Writer, record func(T) (Record, error),
	options ...workers.QueueOption) *workers.Function {
	options = append([]workers.QueueOption{workers.WithConcurrency(concurrency)}, options...)
	return workers.Queue(app, name, func(ctx context.Context, m *workers.Message[T]) error {
		r, err := record(m.Body)
		if err != nil {
			return workers.Permanent(err)
		}
		// The same at every delivery, so that a line that is written twice can be known.
		if r.Time.IsZero() {
			if r.Time, err = time.Parse(time.RFC3339Nano, m.Raw.InsertionTime); err != nil {
				return workers.Permanent(fmt.Errorf("the message's time: %w", err))
			}
		}
		if r.ID == "" {
			r.ID = m.Raw.Id
		}
		// Many messages have the same time, in whole seconds: their lines keep the order in which they were received.
		order := uint64(0)
		if ic, ok := workers.FromContext(ctx); ok {
			order, _ = strconv.ParseUint(ic.TriggerMetadata["ReceivedOrder"], 10, 64)
		}
		err = w.logInOrder(ctx, r, order)
		if errors.Is(err, ErrRecord) {
			return workers.Permanent(err)
		}
		return err
	}, options...)
}
