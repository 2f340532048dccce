package servertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// busy is a service with one message, which it hands to the request that waits once its wait is ended.
type busy struct {
	arrives time.Duration // how long the request is on its way
	takes   time.Duration // how long every answer takes
	unknown bool          // another node has the request
	refuses bool          // the client may not peek

	waiting, end chan struct{}
}

const oneMessage = `<?xml version="1.0"?><QueueMessagesList><QueueMessage><MessageId>m</MessageId>` +
	`<PopReceipt>r</PopReceipt><MessageText>text</MessageText></QueueMessage></QueueMessagesList>`

// Do implements policy.Transporter.
func (b *busy) Do(r *http.Request) (*http.Response, error) {
	wait := func(d time.Duration, end <-chan struct{}) error {
		select {
		case <-time.After(d):
		case <-end:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		return nil
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
	text := "<QueueMessagesList/>"
	if r.Header.Get(longpoll.WaitHeader) != "" {
		if err := wait(b.arrives, nil); err != nil {
			return nil, err
		}
		close(b.waiting)
		if err := wait(50*time.Second, b.end); err != nil {
			return nil, err
		}
		answer.Header.Set(longpoll.WaitHeader, "50")
		text = oneMessage
	} else if b.refuses {
		answer.StatusCode = http.StatusForbidden
	} else if !b.unknown {
		select {
		case <-b.waiting:
			answer.Header.Set(longpoll.ReleaseHeader, r.Header.Get(longpoll.ReleaseHeader))
			close(b.end)
		default:
		}
	}
	answer.Body = io.NopCloser(strings.NewReader(text))
	return answer, wait(b.takes, nil)
}

// A wait that is ended returns what it has received, however busy the service is. Where the service does not end it, it
// is cancelled.
func TestReceiveEndsItsWait(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		service busy
		lost    bool
		within  time.Duration
	}{
		"quick":                  {busy{}, false, 10 * time.Millisecond},
		"slow answers":           {busy{takes: 3 * time.Second}, false, 10 * time.Second},
		"late and slow":          {busy{arrives: 2 * time.Second, takes: 2 * time.Second}, false, 10 * time.Second},
		"arrives after the stop": {busy{arrives: 200 * time.Millisecond}, false, time.Second},
		"at another node":        {busy{unknown: true}, true, 2 * time.Second},
		"peeking is refused":     {busy{refuses: true}, true, 2 * time.Second},
		"no answers":             {busy{takes: time.Hour}, true, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service := x.service
				service.waiting, service.end = make(chan struct{}), make(chan struct{})
				q := check.Must(azqueue.NewQueueClientWithNoCredential("http://host/account/queue", &azqueue.ClientOptions{
					ClientOptions: azcore.ClientOptions{Transport: &service, Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
				stop := make(chan struct{})
				close(stop)
				began := time.Now()
				list, _, err := messages.Receive(t.Context(), q, messages.Request{Most: 1, Lease: time.Minute,
					Wait: 50 * time.Second, Stop: stop})
				if x.lost {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %d messages and %v", len(list), err)
					}
				} else if err != nil || len(list) != 1 || *list[0].MessageText != "text" {
					t.Errorf("got %d messages and %v; want the message that was received", len(list), err)
				}
				if took := time.Since(began); took > x.within {
					t.Errorf("it took %v, want %v at most", took, x.within)
				}
			})
		})
	}
}
