package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// with adds headers to the requests that are made with the context.
func with(ctx context.Context, headers ...string) context.Context {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return policy.WithHTTPHeader(ctx, h)
}

// A worker that waits for messages gets one as soon as it is put, and when it becomes visible; a stop ends the wait.
// One request at a time is allowed, which a waiting one does not use up.
func TestGetMessagesWaits(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{InMemory: true, MaxRequests: 1})
	service, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := service.NewQueueClient("orders")
	if _, err := q.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		messages int
		after    time.Duration
		header   string
	}
	// What is got is hidden for an hour, so that it does not come back within the test.
	hide := &azqueue.DequeueMessagesOptions{VisibilityTimeout: to.Ptr(int32(3600))}
	wait := func(seconds string) <-chan outcome {
		began, c := time.Now(), make(chan outcome, 1)
		go func() {
			var raw *http.Response
			got, err := q.DequeueMessages(
				policy.WithCaptureResponse(with(context.Background(), longpoll.WaitHeader, seconds), &raw), hide)
			if err != nil {
				t.Error(err)
				c <- outcome{}
				return
			}
			c <- outcome{len(got.Messages), time.Since(began), raw.Header.Get(longpoll.WaitHeader)}
		}()
		return c
	}
	arrive := func(c <-chan outcome) { // it waits, or has ended already
		check.Eventually(t, func() bool { return s.Waiting() > 0 || len(c) > 0 }, "the request waits")
	}
	if got := <-wait("1"); got.messages != 0 || got.after < time.Second || got.header != "1" {
		t.Errorf("nothing came: %+v", got)
	}
	for name, hidden := range map[string]int32{"put": 0, "delayed": 1} {
		waiting := wait("50")
		arrive(waiting)
		if _, err := q.EnqueueMessage(t.Context(), "x",
			&azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(hidden)}); err != nil {
			t.Fatal(err)
		}
		if got := <-waiting; got.messages != 1 || got.after > 45*time.Second || got.header != "50" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	waiting := wait("50")
	// a stop does not wait for a request that has not come yet
	arrive(waiting)
	if held, err := q.DequeueMessages(t.Context(), hide); err != nil || len(held.Messages) != 0 { // both are in work
		t.Fatalf("%d messages, %v", len(held.Messages), err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-waiting; got.messages != 0 || got.after > 45*time.Second {
		t.Errorf("at a stop: %+v", got)
	}
}

// Messages that are put while receivers wait, whose waits also end by themselves, reach one receiver each.
func TestWaitingReceiversShareMessages(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{InMemory: true})
	service, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
	check.OK(t, err)
	q := service.NewQueueClient("shared")
	_, err = q.Create(t.Context(), nil)
	check.OK(t, err)
	const senders, each = 4, 100
	var mu sync.Mutex
	received := map[string]int{}
	var receivers, all sync.WaitGroup
	done, end := context.WithCancel(t.Context())
	for i := range 6 {
		receivers.Go(func() {
			most := int32(1 + i%3)
			for done.Err() == nil {
				got, _, err := messages.Receive(t.Context(), q, messages.Request{Most: int(most), Lease: time.Hour,
					Wait: time.Second, Stop: done.Done()})
				if err != nil {
					t.Error(err)
					return
				}
				if len(got) > int(most) {
					t.Errorf("%d messages, at most %d were asked for", len(got), most)
				}
				mu.Lock()
				for _, m := range got {
					received[*m.MessageText]++
				}
				mu.Unlock()
			}
		})
	}
	for i := range senders {
		all.Go(func() {
			for j := range each {
				if _, err := q.EnqueueMessage(t.Context(), fmt.Sprintf("%d-%d", i, j), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	check.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(received) == senders*each
	}, "all messages are received")
	end()
	receivers.Wait()
	for text, n := range received {
		if n != 1 {
			t.Errorf("message %s was received %d times", text, n)
		}
	}
}

// Who lists a container for changes gets what was written, as soon as it was.
func TestListBlobsWaits(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{InMemory: true})
	client, err := azblob.NewClientFromConnectionString(s.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		t.Helper()
		if _, err := client.UploadBuffer(t.Context(), "inbox", name, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CreateContainer(t.Context(), "inbox", nil); err != nil {
		t.Fatal(err)
	}
	list := func(after string) (names []string, position, feed string) {
		var raw *http.Response
		ctx := policy.WithCaptureResponse(with(context.Background(), longpoll.WaitHeader, "30", longpoll.AfterHeader, after),
			&raw)
		page, err := client.NewListBlobsFlatPager("inbox", &azblob.ListBlobsFlatOptions{Prefix: to.Ptr("a/")}).NextPage(ctx)
		if err != nil {
			t.Error(err)
			return nil, "", ""
		}
		for _, item := range page.Segment.BlobItems {
			names = append(names, *item.Name)
		}
		return names, raw.Header.Get(longpoll.PositionHeader), raw.Header.Get(longpoll.FeedHeader)
	}
	put("a/1")
	names, position, feed := list("")
	if len(names) != 1 || feed != longpoll.FeedEverything {
		t.Fatalf("%v, %s", names, feed)
	}
	put("b/1")
	put("a/2")
	put("a/3")
	if _, err := client.DeleteBlob(t.Context(), "inbox", "a/3", nil); err != nil {
		t.Fatal(err)
	}
	names, position, feed = list(position)
	if len(names) != 1 || names[0] != "a/2" || feed != longpoll.FeedChanges {
		t.Fatalf("%v, %s", names, feed)
	}
	changed := make(chan []string, 1)
	go func() { names, _, _ := list(position); changed <- names }()
	check.Eventually(t, func() bool { return s.Waiting() > 0 || len(changed) > 0 }, "the request waits")
	put("b/2")
	put("a/1")
	if names := <-changed; len(names) != 1 || names[0] != "a/1" {
		t.Errorf("%v", names)
	}
}

func start(t *testing.T, c server.Config) *server.Server {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s, err := server.Start(c)
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	return s
}
