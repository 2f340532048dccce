package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// queueWorker puts, claims, changes and deletes messages of a queue of its own.
type queueWorker struct {
	name    string
	queue   *azqueue.QueueClient
	number  int
	changes int
	// messages are those that must be there, or may be, by the number that their text begins with; gone are those that
	// must not.
	messages map[string]*message
	gone     map[string]bool
	acked    int
}

// message is what is known of one message. A claimed one is hidden for a while, so what an operation in doubt has done
// may show only later.
type message struct {
	texts    []string // what its text, without the number, may be
	maybe    bool     // it may be there or not: a put or a delete is in doubt
	dequeued int64    // the highest count that was seen
}

// visibility is for how long a claimed message is hidden. It is short, because the last verification has to wait for
// messages that were claimed when the server died.
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
	w.queue, err = azqueue.NewQueueClientWithSharedKeyCredential(s.queue+"/"+w.name, cred, &azqueue.ClientOptions{ClientOptions: s.options()})
	if err != nil {
		return err
	}
	_, err = w.queue.Create(context.Background(), nil)
	return err // creating what exists is no error
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
	r, err := w.queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &seconds})
	if err != nil {
		return err
	}
	for _, m := range r.Messages {
		known, number, err := w.seen(m)
		if err != nil {
			return err
		}
		switch rnd.IntN(5) {
		case 0: // left alone: it comes back
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

// late says whether a claimed message has become visible again, which a slow machine may bring about: then the
// receipt is not valid any more once somebody else claims it. Here nobody does.
func late(err error) bool { return err != nil && unless(err, "PopReceiptMismatch") == nil }

func (w *queueWorker) remove(number string) {
	delete(w.messages, number)
	w.gone[number] = true
}

// seen checks a claimed message against the ledger, which it makes certain.
func (w *queueWorker) seen(m *azqueue.DequeuedMessage) (known *message, number string, err error) {
	number, text := (*m.MessageText)[:6], (*m.MessageText)[6:]
	known = w.messages[number]
	switch {
	case w.gone[number]:
		return nil, "", mismatchf("queue: message %s of %s was deleted and is back", number, w.name)
	case known == nil:
		return nil, "", mismatchf("queue: message %s of %s was never put", number, w.name)
	case !slices.Contains(known.texts, text):
		return nil, "", mismatchf("queue: message %s of %s says %q, acknowledged was one of %q", number, w.name, text, known.texts)
	case *m.DequeueCount <= known.dequeued:
		return nil, "", mismatchf("queue: message %s of %s has dequeue count %d after %d", number, w.name, *m.DequeueCount, known.dequeued)
	}
	known.texts, known.maybe, known.dequeued = []string{text}, false, *m.DequeueCount
	return known, number, nil
}

// certain is how many messages must be there; more may.
func (w *queueWorker) certain() (n int) {
	for _, m := range w.messages {
		if !m.maybe {
			n++
		}
	}
	return n
}

// verify compares the number of messages with the ledger, and at the end takes them all out.
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
		// Approximate means: right after a start, deleted messages may count.
		if got < least || time.Now().After(deadline) {
			return mismatchf("queue: %s has %d messages, acknowledged were %d, and %d are in doubt", w.name, got, least, most-least)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// drain claims and deletes messages until each that must be there has been seen.
func (w *queueWorker) drain(ctx context.Context) error {
	seconds, count := int32(60), int32(32)
	for deadline := time.Now().Add(patience); w.certain() > 0; {
		if time.Now().After(deadline) {
			return mismatchf("queue: %d messages of %s are missing", w.certain(), w.name)
		}
		r, err := w.queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &seconds})
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
