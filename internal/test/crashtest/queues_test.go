package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// queueWorker puts, claims, changes and deletes messages of its own queue.
type queueWorker struct {
	name    string
	queue   *azqueue.QueueClient
	number  int
	changes int
	// messages has the messages that must or may exist, by the number at the start of their text; gone has those that must
	// not exist.
	messages map[string]*message
	gone     map[string]bool
	acked    int
}

// message is the known state of one message. A claimed message is hidden for a while, so the effect of an operation of
// unknown outcome may become visible only later.
type message struct {
	texts    []string // possible texts, without the number
	maybe    bool     // it is unknown whether it exists: the outcome of a put or a delete is unknown
	dequeued int64    // the highest observed count
}

// visibility is the visibility timeout of a claimed message. It is short, because the last verification has to wait for
// messages that were claimed when the server was killed.
const visibility = 1 // seconds

func newQueueWorker(i int) *queueWorker {
	return &queueWorker{name: fmt.Sprint("queue", i), messages: map[string]*message{}, gone: map[string]bool{}}
}

func (w *queueWorker) acknowledged() int { return w.acked }

func (w *queueWorker) connect(s *server) error {
	cred, err := azqueue.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	w.queue, err = azqueue.NewQueueClientWithSharedKeyCredential(s.queue+"/"+w.name, cred,
		&azqueue.ClientOptions{ClientOptions: s.options()})
	if err != nil {
		return err
	}
	_, err = w.queue.Create(context.Background(), nil)
	return err // creating an existing queue is not an error
}

func (w *queueWorker) step(ctx context.Context, rnd *rand.Rand) error {
	if rnd.IntN(10) < 6 {
		w.number++
		number := fmt.Sprintf("%06d", w.number)
		m := &message{texts: []string{"new"}, maybe: true}
		w.messages[number] = m
		if _, err := w.queue.EnqueueMessage(ctx, number+"new", nil); err != nil {
			return err
		}
		m.maybe = false
		w.acked++
		return nil
	}
	seconds := int32(visibility)
	count := int32(1 + rnd.IntN(4))
	r, err := w.queue.DequeueMessages(ctx,
		&azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &seconds})
	if err != nil {
		return err
	}
	for _, m := range r.Messages {
		known, number, err := w.seen(m)
		if err != nil {
			return err
		}
		switch rnd.IntN(5) {
		case 0: // not deleted: it becomes visible again
		case 1:
			w.changes++
			text := fmt.Sprint("changed", w.changes)
			before := known.texts
			known.texts = append(before, text)
			_, err := w.queue.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, number+text,
				&azqueue.UpdateMessageOptions{VisibilityTimeout: &seconds})
			if late(err) {
				known.texts = before
				continue
			}
			if err != nil {
				return err
			}
			known.texts = []string{text}
			w.acked++
		default:
			known.maybe = true
			_, err := w.queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil)
			if late(err) {
				known.maybe = false
				continue
			}
			if err != nil {
				return err
			}
			w.remove(number)
			w.acked++
		}
	}
	return nil
}

// late reports whether a claimed message may have become visible again, which can happen on a slow machine: another
// consumer could claim it and invalidate the receipt. This test has no other consumer. A message that is lost has the
// same error; the ledger, in which it stays, shows that in the end.
func late(err error) bool { return err != nil && unless(err, "MessageNotFound") == nil }

func (w *queueWorker) remove(number string) {
	delete(w.messages, number)
	w.gone[number] = true
}

// seen checks a claimed message against the ledger. Its state is certain afterwards.
func (w *queueWorker) seen(m *azqueue.DequeuedMessage) (known *message, number string, err error) {
	number, text := (*m.MessageText)[:6], (*m.MessageText)[6:]
	known = w.messages[number]
	switch {
	case w.gone[number]:
		return nil, "", mismatchf("queue: message %s of %s was deleted and is back", number, w.name)
	case known == nil:
		return nil, "", mismatchf("queue: message %s of %s was never put", number, w.name)
	case !slices.Contains(known.texts, text):
		return nil, "", mismatchf("queue: message %s of %s says %q, acknowledged was one of %q", number, w.name, text,
			known.texts)
	case *m.DequeueCount <= known.dequeued:
		return nil, "", mismatchf("queue: message %s of %s has dequeue count %d after %d", number, w.name, *m.DequeueCount,
			known.dequeued)
	}
	known.texts, known.maybe, known.dequeued = []string{text}, false, *m.DequeueCount
	return known, number, nil
}

// certain returns the number of messages that must exist; more may exist.
func (w *queueWorker) certain() (n int) {
	for _, m := range w.messages {
		if !m.maybe {
			n++
		}
	}
	return n
}

// verify compares the number of messages with the ledger, and removes all messages at the end.
func (w *queueWorker) verify(ctx context.Context, final bool) error {
	if final {
		return w.drain(ctx)
	}
	for deadline := time.Now().Add(patience); ; {
		r, err := w.queue.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		got, least, most := int(*r.ApproximateMessagesCount), w.certain(), len(w.messages)
		if got >= least && got <= most {
			return nil
		}
		// The count is approximate: right after a start, it may include deleted messages.
		if got < least || time.Now().After(deadline) {
			return mismatchf("queue: %s has %d messages, acknowledged were %d, and %d are in doubt", w.name, got, least,
				most-least)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// drain claims and deletes messages until it has seen each message that must exist.
func (w *queueWorker) drain(ctx context.Context) error {
	seconds, count := int32(60), int32(32)
	for deadline := time.Now().Add(patience); w.certain() > 0; {
		if time.Now().After(deadline) {
			return mismatchf("queue: %d messages of %s are missing", w.certain(), w.name)
		}
		r, err := w.queue.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &seconds})
		if err != nil {
			return err
		}
		for _, m := range r.Messages {
			_, number, err := w.seen(m)
			if err != nil {
				return err
			}
			if _, err := w.queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
				return err
			}
			w.remove(number)
		}
		if len(r.Messages) == 0 {
			pause(ctx, 50*time.Millisecond) // for messages that are still hidden, by the server's clock
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
