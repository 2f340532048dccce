package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// The server that leads a queue's stream is cut off, and believes for some seconds that it still leads. A front-end there must not call the queue empty
// after another one has acknowledged a message.
func TestFrontEndThatWasCutOffDoesNotCallAQueueEmpty(t *testing.T) {
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	t.Parallel()
	c := natscluster.Start(t, 3)
	var queues []*Queue
	for i := range c.Size() {
		n := startNATS(t, natsserver.Config{URL: c.ServerURL(i), Replicas: c.Size()})
		index, err := natsserver.NewReadIndex(n.Conn(), c.Running(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(index.Close)
		s := open(t, n)
		s.end = index.End
		if i == 0 {
			queues = append(queues, create(t, s, "orders"))
		} else {
			queues = append(queues, find(t, s, "orders"))
		}
	}
	// A young cluster may still change its leader.
	for _, q := range queues {
		eventually(t, func() error {
			_, err := q.Get(t.Context(), 1, time.Minute, time.Now())
			return err
		})
	}
	leader := c.Leads(queues[0].stream)
	if leader < 0 {
		t.Fatal("the stream has no leader")
	}
	c.Cut(leader, true)
	eventually(t, func() error {
		_, err := queues[(leader+1)%3].Put(t.Context(), []byte("message"), 0, Forever, time.Now())
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := queues[leader].Get(ctx, 1, time.Minute, time.Now()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Get of the front-end that was cut off: %d messages, %v, want ErrUnavailable", len(got), err)
	}
	if got, err := queues[leader].ApproximateCount(ctx, time.Now()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("count of the front-end that was cut off: %d, %v, want ErrUnavailable", got, err)
	}
	c.Cut(leader, false)
	eventually(t, func() error {
		got, err := queues[leader].Get(t.Context(), 1, time.Minute, time.Now())
		if err == nil && len(got) != 1 {
			t.Fatal("the front-end that was cut off calls the queue empty later")
		}
		return err
	})
}
