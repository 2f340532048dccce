package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// An answer that comes late must not be taken for that of a later request, nor, if there can be several, a second one.
func TestAnswersGoToTheirRequest(t *testing.T) {
	t.Parallel()
	for _, reuse := range []bool{true, false} {
		s := memory(t)
		c, err := newClient(s.conn, time.Minute, !reuse, func(string) error { return nil })
		check.OK(t, err)
		t.Cleanup(c.close)
		requests := make(chan *nats.Msg, 1)
		sub, err := s.conn.ChanSubscribe("test.requests", requests)
		check.OK(t, err)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
		ask := func() (pending, *nats.Msg) {
			p := c.send("stream", nats.NewMsg("test.requests"))
			return p, <-requests
		}
		answer := func(request *nats.Msg, text string) { check.OK(t, s.conn.Publish(request.Reply, []byte(text))) }
		want := func(p pending, text string) {
			t.Helper()
			m, err := p.wait(ctx)
			if err != nil || string(m.Data) != text {
				t.Errorf("reuse %v: got %v, %v; want %s", reuse, m, err, text)
			}
		}

		first, request := ask()
		answer(request, "first")
		if !reuse { // otherwise a request has one answer
			answer(request, "first again")
		}
		want(first, "first")
		second, next := ask()
		if same := next.Reply == request.Reply; same != reuse {
			t.Errorf("reuse %v: the subjects of two answers are equal: %v", reuse, same)
		}
		answer(next, "second")
		want(second, "second")

		given, lost := ask()
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := given.wait(canceled); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a canceled request: %v", err)
		}
		third, request := ask()
		answer(lost, "too late")
		answer(request, "third")
		want(third, "third")
	}
}
