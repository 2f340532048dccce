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
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// checkQueueClient checks what every Client must do. canWait says whether the service supports long polling. open
// returns a client of a queue of the name, which does not exist before. No assertion limits how long a call takes.
func checkQueueClient(t *testing.T, canWait bool, open func(t *testing.T, name string) queues.Client) {
	t.Helper()
	const hour, week = time.Hour, 7 * 24 * time.Hour

	created := func(t *testing.T, name string) queues.Client {
		q := open(t, name)
		check.OK(t, q.Create(t.Context()))
		return q
	}
	put := func(t *testing.T, q queues.Client, text string, visibleIn time.Duration) string {
		return check.Must(q.Put(t.Context(), text, visibleIn, week))(t)
	}
	receive := func(t *testing.T, q queues.Client, n int, lease time.Duration) []queues.Message {
		t.Helper()
		got, _, err := q.Receive(t.Context(), n, lease, 0, nil)
		check.OK(t, err)
		return got
	}
	one := func(t *testing.T, q queues.Client, lease time.Duration) queues.Message {
		t.Helper()
		var got []queues.Message
		check.Eventually(t, func() bool { got = receive(t, q, 1, lease); return len(got) > 0 }, "a message is received")
		return got[0]
	}

	t.Run("a queue that does not exist", func(t *testing.T) {
		q := open(t, "missing")
		_, _, err := q.Receive(t.Context(), 1, hour, 0, nil)
		checkErrorIs(t, "receive", err, queues.ErrNoQueue)
		_, err = q.Put(t.Context(), "m", 0, week)
		checkErrorIs(t, "put", err, queues.ErrNoQueue)
		_, _, err = q.Depth(t.Context())
		checkErrorIs(t, "depth", err, queues.ErrNoQueue)
		_, _, err = q.Receive(t.Context(), 1, hour, time.Second, nil)
		checkErrorIs(t, "wait", err, queues.ErrNoQueue)
		other := created(t, "other")
		put(t, other, "m", 0)
		m := one(t, other, hour)
		_, err = q.Update(t.Context(), m, hour)
		checkErrorIs(t, "update", err, queues.ErrNoQueue)
		checkErrorIs(t, "delete", q.Delete(t.Context(), m), queues.ErrNoQueue)
	})
	t.Run("create of a queue that exists", func(t *testing.T) {
		q := created(t, "twice")
		put(t, q, "kept", 0)
		check.OK(t, q.Create(t.Context()))
		if n, _, err := q.Depth(t.Context()); n != 1 || err != nil {
			t.Errorf("depth after the second create is %d, %v, want 1", n, err)
		}
	})
	t.Run("what is received is what was put", func(t *testing.T) {
		q := created(t, "fields")
		id := put(t, q, "bGFwaXM=", 0)
		m := one(t, q, hour)
		if diff := cmp.Diff([]any{id, "bGFwaXM=", int64(1)}, []any{m.ID, m.Text, m.DequeueCount}); diff != "" {
			t.Errorf("ID, text and dequeue count (-want +got):\n%s", diff)
		}
		if m.Receipt == "" {
			t.Error("the message has no receipt")
		}
		if lives := m.Expires.Sub(m.Inserted); lives != week {
			t.Errorf("the message lives for %v, want %v", lives, week)
		}
		if !m.NextVisible.After(m.Inserted) {
			t.Errorf("inserted at %v, visible again at %v", m.Inserted, m.NextVisible)
		}
	})
	t.Run("a message that does not expire", func(t *testing.T) {
		q := created(t, "forever")
		check.Must(q.Put(t.Context(), "m", 0, -1))(t)
		if m := one(t, q, hour); m.Expires.Year() != 9999 {
			t.Errorf("the message expires at %v, want the year 9999", m.Expires)
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
		if n, oldest, err := q.Depth(t.Context()); n != 1 || !oldest.IsZero() || err != nil {
			t.Errorf("depth is %d, oldest %v, %v, want 1 message and none visible", n, oldest, err)
		}
	})
	t.Run("a lease that ends", func(t *testing.T) {
		q := created(t, "lease")
		put(t, q, "m", 0)
		first := one(t, q, time.Second)
		second := one(t, q, hour)
		if second.ID != first.ID || second.DequeueCount != 2 {
			t.Errorf("the second delivery has ID %s and dequeue count %d, want %s and 2", second.ID, second.DequeueCount,
				first.ID)
		}
		_, err := q.Update(t.Context(), first, hour)
		checkErrorIs(t, "update with the first receipt", err, queues.ErrNotHeld)
		checkErrorIs(t, "delete with the first receipt", q.Delete(t.Context(), first), queues.ErrNotHeld)
		check.OK(t, q.Delete(t.Context(), second))
	})
	t.Run("update renews the receipt", func(t *testing.T) {
		q := created(t, "renew")
		put(t, q, "m", 0)
		m := one(t, q, hour)
		receipt := check.Must(q.Update(t.Context(), m, 2*hour))(t)
		if receipt == m.Receipt {
			t.Errorf("the receipt is still %s", receipt)
		}
		checkErrorIs(t, "delete with the old receipt", q.Delete(t.Context(), m), queues.ErrNotHeld)
		m.Receipt = receipt
		check.OK(t, q.Delete(t.Context(), m))
		checkErrorIs(t, "second delete", q.Delete(t.Context(), m), queues.ErrNotHeld)
		_, err := q.Update(t.Context(), m, hour)
		checkErrorIs(t, "update of a deleted message", err, queues.ErrNotHeld)
	})
	t.Run("update to zero releases the message", func(t *testing.T) {
		q := created(t, "release")
		put(t, q, "m", 0)
		check.Must(q.Update(t.Context(), one(t, q, hour), 0))(t)
		if m := one(t, q, hour); m.Text != "m" || m.DequeueCount != 2 {
			t.Errorf("received %q with dequeue count %d, want m and 2", m.Text, m.DequeueCount)
		}
	})
	t.Run("depth", func(t *testing.T) {
		q := created(t, "depth")
		if n, oldest, err := q.Depth(t.Context()); n != 0 || !oldest.IsZero() || err != nil {
			t.Errorf("an empty queue has depth %d, oldest %v, %v", n, oldest, err)
		}
		put(t, q, "a", 0)
		put(t, q, "b", 0)
		first := one(t, q, hour)
		n, oldest, err := q.Depth(t.Context())
		if n != 2 || oldest.IsZero() || err != nil {
			t.Errorf("depth with one hidden message is %d, oldest %v, %v", n, oldest, err)
		}
		if oldest.Before(first.Inserted) {
			t.Errorf("the oldest visible message is of %v, before the hidden one of %v", oldest, first.Inserted)
		}
	})
	t.Run("receive waits for a message", func(t *testing.T) {
		q := created(t, "wake")
		type outcome struct {
			list  []queues.Message
			waits bool
			err   error
		}
		ended := make(chan outcome, 1)
		go func() {
			list, waits, err := q.Receive(t.Context(), 1, hour, 20*time.Second, nil)
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
				_, err := q.Put(t.Context(), fmt.Sprint(i), 0, week)
				put <- err
			}()
			go close(stop)
			list, waits, err := q.Receive(t.Context(), 1, hour, 20*time.Second, stop)
			check.OK(t, err)
			check.OK(t, <-put)
			if waits != canWait {
				t.Errorf("waits: %v", waits)
			}
			if len(list) == 0 { // the message came later: it is not hidden
				list = append(list, one(t, q, hour))
			}
			if list[0].Text != fmt.Sprint(i) || list[0].DequeueCount != 1 {
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
		var held []queues.Message
		for len(held) < n {
			held = append(held, receive(t, q, 32, hour)...)
		}
		stale := held[7]
		if _, err := q.Update(t.Context(), stale, hour); err != nil {
			t.Fatal(err)
		}
		check.OK(t, q.Delete(t.Context(), held[8]))
		outcomes := make([]error, n)
		var all sync.WaitGroup
		for i, m := range held {
			all.Go(func() { outcomes[i] = q.Delete(t.Context(), m) })
		}
		all.Wait()
		for i, err := range outcomes {
			if wrong := i == 7 || i == 8; wrong != errors.Is(err, queues.ErrNotHeld) || !wrong && err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		left, _, err := q.Depth(t.Context())
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
	checkQueueClient(t, true, func(t *testing.T, name string) queues.Client {
		q := account.queue(name)
		q.canWait = true
		return q
	})
}

func TestAzureQueueClient(t *testing.T) {
	t.Parallel()
	storage, isLazuli := openOwnStorage(t)
	checkQueueClient(t, isLazuli, func(t *testing.T, name string) queues.Client {
		name = fmt.Sprintf("client-%s-%x", name, time.Now().UnixNano())
		t.Cleanup(func() { _, _ = storage.Queues.DeleteQueue(context.Background(), name, nil) })
		return check.Must(openQueueOf(storage, name))(t)
	})
}
