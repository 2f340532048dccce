package servertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

func open(t *testing.T, method string, plain bool) (*azqueue.QueueClient, *link.Link) {
	t.Helper()
	lazuli := lazulitest.Start(t)
	l := &link.Link{Next: lazuli.Client(), Method: method, Plain: plain}
	storage, err := workers.OpenStorage(lazuli.ConnectionString(), workers.WithTransport(l))
	check.OK(t, err)
	q := storage.Queues.NewQueueClient("queue")
	_, err = q.Create(t.Context(), nil)
	check.OK(t, err)
	return q, l
}

func texts(t *testing.T, q *azqueue.QueueClient) (list []string) {
	t.Helper()
	for {
		got, err := q.DequeueMessages(t.Context(),
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32)), VisibilityTimeout: to.Ptr(int32(600))})
		check.OK(t, err)
		for _, m := range got.Messages {
			list = append(list, *m.MessageText)
		}
		if len(got.Messages) == 0 {
			return list
		}
	}
}

// Messages that are put at the same time share requests, in their order, on a service that supports it; on another each
// has its own.
func TestPutTogether(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"shared": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, l := open(t, http.MethodPost, plain)
			p := messages.NewPutter(q)
			got, err := p.Put(t.Context(), messages.New{Text: "first"})
			check.OK(t, err)
			if _, err := q.UpdateMessage(t.Context(), got[0].ID, got[0].Receipt, "changed",
				&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}); err != nil {
				t.Errorf("what Put returns does not change the message: %v", err)
			}
			var list []messages.New
			want := []string{"changed"}
			for i := range 100 {
				m := messages.New{Text: fmt.Sprintf(`{"n": "%d <ä&>"}`, i)}
				if i%10 == 0 {
					m.Delay = time.Hour
				} else {
					want = append(want, m.Text)
				}
				list = append(list, m)
			}
			got, err = p.Put(t.Context(), list...)
			check.OK(t, err)
			if len(got) != len(list) || slices.Contains(got, messages.Put{}) {
				t.Errorf("Put returned %d messages, or empty ones", len(got))
			}
			requests := int64(1 + 4)
			if plain {
				requests = 1 + 100
			}
			if n := l.Count(); n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
			have := texts(t, q)
			if plain { // in no order
				slices.Sort(have)
				slices.Sort(want)
			}
			if !slices.Equal(have, want) {
				t.Errorf("the queue has %q, want %q", have, want)
			}
		})
	}
}

// Callers share a request with those that come while another one is under way.
func TestPutShares(t *testing.T) {
	t.Parallel()
	q, l := open(t, http.MethodPost, false)
	p := messages.NewPutter(q)
	_, err := p.Put(t.Context(), messages.New{Text: "x"})
	check.OK(t, err)
	release := l.Hold()
	var all sync.WaitGroup
	put := func() {
		all.Go(func() {
			if _, err := p.Put(t.Context(), messages.New{Text: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	put()
	check.Eventually(t, func() bool { return l.Count() >= 2 }, "the request is under way")
	for range 20 {
		put()
	}
	check.Eventually(t, func() bool { return p.Waiting() >= 20 }, "20 messages wait")
	release()
	all.Wait()
	if n, requests := len(texts(t, q)), l.Count(); n != 22 || requests != 3 {
		t.Errorf("%d messages in %d requests, want 22 in 3", n, requests)
	}
}

// A message that is refused does not take others with it.
func TestPutRefused(t *testing.T) {
	t.Parallel()
	q, _ := open(t, http.MethodPost, false)
	p := messages.NewPutter(q)
	_, err := p.Put(t.Context(), messages.New{Text: "x"})
	check.OK(t, err)
	_, err = p.Put(t.Context(), messages.New{Text: "a"}, messages.New{Text: strings.Repeat("x", 65<<10)},
		messages.New{Text: "b"})
	if !queueerror.HasCode(err, "RequestBodyTooLarge") {
		t.Errorf("a large message: %v", err)
	}
	have := texts(t, q)
	if slices.Sort(have); !slices.Equal(have, []string{"a", "b", "x"}) {
		t.Errorf("the queue has %q", have)
	}
	_, err = q.Delete(t.Context(), nil)
	check.OK(t, err)
	if _, err = p.Put(t.Context(), messages.New{Text: "a"}, messages.New{Text: "b"}); !queueerror.HasCode(err,
		queueerror.QueueNotFound) {
		t.Errorf("a queue that is deleted: %v", err)
	}
}

// A deletion waits for others to share its request with.
func TestDeleteLingers(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"shared": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, l := open(t, http.MethodDelete, plain)
			d := messages.NewDeleter(q, 100*time.Millisecond)
			const n = 20
			_, err := messages.NewPutter(q).Put(t.Context(), make([]messages.New, n)...)
			check.OK(t, err)
			got, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(n))})
			check.OK(t, err)
			var all sync.WaitGroup
			for _, m := range got.Messages {
				all.Go(func() {
					if err := d.Delete(t.Context(), *m.MessageID, *m.PopReceipt); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			properties, err := q.GetProperties(t.Context(), nil)
			check.OK(t, err)
			if left := *properties.ApproximateMessagesCount; left != 0 || !plain && l.Count() > n/2 {
				t.Errorf("%d messages are left after %d requests", left, l.Count())
			}
		})
	}
}

// Each message keeps its time to live, also beside others.
func TestPutTimeToLive(t *testing.T) {
	t.Parallel()
	q, l := open(t, http.MethodPost, false)
	p := messages.NewPutter(q)
	_, err := p.Put(t.Context(), messages.New{Text: "first"})
	check.OK(t, err)
	want := map[string]time.Duration{"week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "minute": time.Minute}
	_, err = p.Put(t.Context(), messages.New{Text: "week", TTL: want["week"]},
		messages.New{Text: "week", TTL: want["week"]}, messages.New{Text: "month", TTL: want["month"]},
		messages.New{Text: "minute", TTL: want["minute"]}, messages.New{Text: "never"})
	check.OK(t, err)
	if n := l.Count(); n != 1+4 {
		t.Errorf("%d requests, want one for each time to live", n)
	}
	got, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	check.OK(t, err)
	if len(got.Messages) != 6 {
		t.Errorf("%d messages, want 6", len(got.Messages))
	}
	for _, m := range got.Messages {
		lives, forever := m.ExpirationTime.Sub(*m.InsertionTime), m.ExpirationTime.Year() == 9999
		if w, ok := want[*m.MessageText]; ok && lives != w || !ok && !forever {
			t.Errorf("%s lives for %v", *m.MessageText, lives)
		}
	}
}
