package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// checkQueueClient checks what every queueClient must do. canWait says whether the service supports long polling. open
// returns a client of a queue of the name, which does not exist before. No assertion limits how long a call takes.
func checkQueueClient(t *testing.T, canWait bool, open func(t *testing.T, name string) queueClient) {
	t.Helper()
	const hour, week = time.Hour, 7 * 24 * time.Hour

	created := func(t *testing.T, name string) queueClient {
		q := open(t, name)
		check.OK(t, q.create(t.Context()))
		return q
	}
	put := func(t *testing.T, q queueClient, text string, visibleIn time.Duration) string {
		return check.Must(q.put(t.Context(), text, visibleIn, week))(t)
	}
	receive := func(t *testing.T, q queueClient, n int, lease time.Duration) []receivedMessage {
		t.Helper()
		got, _, err := q.receive(t.Context(), n, lease, 0, nil)
		check.OK(t, err)
		return got
	}
	one := func(t *testing.T, q queueClient, lease time.Duration) receivedMessage {
		t.Helper()
		var got []receivedMessage
		check.Eventually(t, func() bool { got = receive(t, q, 1, lease); return len(got) > 0 }, "a message is received")
		return got[0]
	}

	t.Run("a queue that does not exist", func(t *testing.T) {
		q := open(t, "missing")
		_, _, err := q.receive(t.Context(), 1, hour, 0, nil)
		checkErrorIs(t, "receive", err, errNoQueue)
		_, err = q.put(t.Context(), "m", 0, week)
		checkErrorIs(t, "put", err, errNoQueue)
		_, _, err = q.depth(t.Context())
		checkErrorIs(t, "depth", err, errNoQueue)
		_, _, err = q.receive(t.Context(), 1, hour, time.Second, nil)
		checkErrorIs(t, "wait", err, errNoQueue)
		other := created(t, "other")
		put(t, other, "m", 0)
		m := one(t, other, hour)
		_, err = q.update(t.Context(), m, hour)
		checkErrorIs(t, "update", err, errNoQueue)
		checkErrorIs(t, "delete", q.delete(t.Context(), m), errNoQueue)
	})
	t.Run("create of a queue that exists", func(t *testing.T) {
		q := created(t, "twice")
		put(t, q, "kept", 0)
		check.OK(t, q.create(t.Context()))
		if n, _, err := q.depth(t.Context()); n != 1 || err != nil {
			t.Errorf("depth after the second create is %d, %v, want 1", n, err)
		}
	})
	t.Run("what is received is what was put", func(t *testing.T) {
		q := created(t, "fields")
		id := put(t, q, "bGFwaXM=", 0)
		m := one(t, q, hour)
		if diff := cmp.Diff([]any{id, "bGFwaXM=", int64(1)}, []any{m.id, m.text, m.dequeueCount}); diff != "" {
			t.Errorf("ID, text and dequeue count (-want +got):\n%s", diff)
		}
		if m.receipt == "" {
			t.Error("the message has no receipt")
		}
		if lives := m.expires.Sub(m.inserted); lives != week {
			t.Errorf("the message lives for %v, want %v", lives, week)
		}
		if !m.nextVisible.After(m.inserted) {
			t.Errorf("inserted at %v, visible again at %v", m.inserted, m.nextVisible)
		}
	})
	t.Run("a message that does not expire", func(t *testing.T) {
		q := created(t, "forever")
		check.Must(q.put(t.Context(), "m", 0, -1))(t)
		if m := one(t, q, hour); m.expires.Year() != 9999 {
			t.Errorf("the message expires at %v, want the year 9999", m.expires)
		}
	})
	t.Run("receive takes no more than asked", func(t *testing.T) {
		q := created(t, "batch")
		for _, text := range []string{"a", "b", "c"} {
			put(t, q, text, 0)
		}
		if got := receive(t, q, 2, hour); len(got) != 2 {
			t.Errorf("asked for 2 messages, got %d", len(got))
		}
		if got := receive(t, q, 32, hour); len(got) != 1 {
			t.Errorf("got %d messages of one that is left", len(got))
		}
		if got := receive(t, q, 32, hour); len(got) != 0 {
			t.Errorf("got %d messages that are hidden", len(got))
		}
	})
	t.Run("a message put for later", func(t *testing.T) {
		q := created(t, "later")
		put(t, q, "m", hour)
		if got := receive(t, q, 1, hour); len(got) != 0 {
			t.Errorf("got %d messages before the time", len(got))
		}
		if n, oldest, err := q.depth(t.Context()); n != 1 || !oldest.IsZero() || err != nil {
			t.Errorf("depth is %d, oldest %v, %v, want 1 message and none visible", n, oldest, err)
		}
	})
	t.Run("a lease that ends", func(t *testing.T) {
		q := created(t, "lease")
		put(t, q, "m", 0)
		first := one(t, q, time.Second)
		second := one(t, q, hour)
		if second.id != first.id || second.dequeueCount != 2 {
			t.Errorf("the second delivery has ID %s and dequeue count %d, want %s and 2", second.id, second.dequeueCount,
				first.id)
		}
		_, err := q.update(t.Context(), first, hour)
		checkErrorIs(t, "update with the first receipt", err, errNotHeld)
		checkErrorIs(t, "delete with the first receipt", q.delete(t.Context(), first), errNotHeld)
		check.OK(t, q.delete(t.Context(), second))
	})
	t.Run("update renews the receipt", func(t *testing.T) {
		q := created(t, "renew")
		put(t, q, "m", 0)
		m := one(t, q, hour)
		receipt := check.Must(q.update(t.Context(), m, 2*hour))(t)
		if receipt == m.receipt {
			t.Errorf("the receipt is still %s", receipt)
		}
		checkErrorIs(t, "delete with the old receipt", q.delete(t.Context(), m), errNotHeld)
		m.receipt = receipt
		check.OK(t, q.delete(t.Context(), m))
		checkErrorIs(t, "second delete", q.delete(t.Context(), m), errNotHeld)
		_, err := q.update(t.Context(), m, hour)
		checkErrorIs(t, "update of a deleted message", err, errNotHeld)
	})
	t.Run("update to zero releases the message", func(t *testing.T) {
		q := created(t, "release")
		put(t, q, "m", 0)
		check.Must(q.update(t.Context(), one(t, q, hour), 0))(t)
		if m := one(t, q, hour); m.text != "m" || m.dequeueCount != 2 {
			t.Errorf("received %q with dequeue count %d, want m and 2", m.text, m.dequeueCount)
		}
	})
	t.Run("depth", func(t *testing.T) {
		q := created(t, "depth")
		if n, oldest, err := q.depth(t.Context()); n != 0 || !oldest.IsZero() || err != nil {
			t.Errorf("an empty queue has depth %d, oldest %v, %v", n, oldest, err)
		}
		put(t, q, "a", 0)
		put(t, q, "b", 0)
		first := one(t, q, hour)
		n, oldest, err := q.depth(t.Context())
		if n != 2 || oldest.IsZero() || err != nil {
			t.Errorf("depth with one hidden message is %d, oldest %v, %v", n, oldest, err)
		}
		if oldest.Before(first.inserted) {
			t.Errorf("the oldest visible message is of %v, before the hidden one of %v", oldest, first.inserted)
		}
	})
	t.Run("receive waits for a message", func(t *testing.T) {
		q := created(t, "wake")
		type outcome struct {
			list  []receivedMessage
			waits bool
			err   error
		}
		ended := make(chan outcome, 1)
		go func() {
			list, waits, err := q.receive(t.Context(), 1, hour, 20*time.Second, nil)
			ended <- outcome{list, waits, err}
		}()
		put(t, q, "m", 0)
		got := <-ended
		if got.waits != canWait || got.err != nil || canWait && len(got.list) != 1 {
			t.Errorf("%+v, want a message if %v", got, canWait)
		}
	})
	t.Run("a wait ends without loss", func(t *testing.T) {
		q := created(t, "release")
		for i := range 20 {
			stop, put := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := q.put(t.Context(), fmt.Sprint(i), 0, week)
				put <- err
			}()
			go close(stop)
			list, waits, err := q.receive(t.Context(), 1, hour, 20*time.Second, stop)
			check.OK(t, err)
			check.OK(t, <-put)
			if waits != canWait {
				t.Errorf("waits: %v", waits)
			}
			if len(list) == 0 { // the message came later: it is not hidden
				list = append(list, one(t, q, hour))
			}
			if list[0].text != fmt.Sprint(i) || list[0].dequeueCount != 1 {
				t.Errorf("received %+v, want message %d once", list[0], i)
			}
		}
	})
	t.Run("deletions at once", func(t *testing.T) {
		q := created(t, "together")
		const n = 100
		for i := range n {
			put(t, q, fmt.Sprint(i), 0)
		}
		var held []receivedMessage
		for len(held) < n {
			held = append(held, receive(t, q, 32, hour)...)
		}
		stale := held[7]
		if _, err := q.update(t.Context(), stale, hour); err != nil {
			t.Fatal(err)
		}
		check.OK(t, q.delete(t.Context(), held[8]))
		outcomes := make([]error, n)
		var all sync.WaitGroup
		for i, m := range held {
			all.Go(func() { outcomes[i] = q.delete(t.Context(), m) })
		}
		all.Wait()
		for i, err := range outcomes {
			if wrong := i == 7 || i == 8; wrong != errors.Is(err, errNotHeld) || !wrong && err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		left, _, err := q.depth(t.Context())
		if left != 1 || err != nil {
			t.Errorf("%d messages are left, %v; want the one with another receipt", left, err)
		}
	})
}

func checkErrorIs(t *testing.T, operation string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", operation, err, want)
	}
}

func TestFakeQueueClient(t *testing.T) {
	t.Parallel()
	account := newFakeAccount()
	checkQueueClient(t, true, func(t *testing.T, name string) queueClient {
		q := account.queue(name)
		q.canWait = true
		return q
	})
}

func TestAzureQueueClient(t *testing.T) {
	t.Parallel()
	storage, isLazuli := openOwnStorage(t)
	checkQueueClient(t, isLazuli, func(t *testing.T, name string) queueClient {
		name = fmt.Sprintf("client-%s-%x", name, time.Now().UnixNano())
		t.Cleanup(func() { _, _ = storage.Queues.DeleteQueue(context.Background(), name, nil) })
		return check.Must(openAzureQueue(storage, name))(t)
	})
}
