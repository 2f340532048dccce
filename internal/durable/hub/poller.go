package hub

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// receiveMost is the number of messages that one request can bring.
const receiveMost = 32

// poller receives the messages of a queue, and spaces the polls of an empty one.
type poller struct {
	b      *Backend
	q      inflight.Queue
	cannot bool          // the service lets no request wait
	empty  time.Duration // the last pause
}

// poll receives up to n messages and calls handle with them, if there are any; those that cannot be read are set aside.
// It waits for messages, and returns early when ctx is done. Its pauses use the system's clock, because a test may
// not advance its own clock during them.
func (p *poller) poll(ctx context.Context, n int, handle func(list []*inflight.Received)) (found bool) {
	asked := time.Now()
	most := record.WaitMost
	if p.cannot {
		most = 0
	}
	got, waited, err := p.b.receive(ctx, p.q, n, &most, handle)
	switch {
	case err != nil && ctx.Err() == nil && p.b.remake(ctx, err):
	case err != nil && ctx.Err() == nil:
		p.b.log.Warn("cannot receive messages; trying again", "queue", p.q.Client.URL(), "err", sdkerr.Short(err))
		sleep(ctx, systemClock{}, time.Second)
	case got > 0:
		p.empty = 0
	case waited || most == 0 && !p.cannot: // A wait that ends at once must not become a loop.
		if time.Since(asked) < time.Millisecond {
			sleep(ctx, systemClock{}, time.Millisecond)
		}
	default:
		p.cannot = p.cannot || err == nil
		p.empty = min(max(2*p.empty, 20*time.Millisecond), p.b.options.MaxPolling)
		sleep(ctx, systemClock{}, p.empty)
	}
	return got > 0
}

// receive receives messages once and calls handle with them. It sets most to the time that it could wait.
func (b *Backend) receive(ctx context.Context, q inflight.Queue, n int, most *time.Duration,
	handle func(list []*inflight.Received)) (got int, waited bool, err error) {
	wait, excluded, end := b.polls.Begin(*most)
	defer end()
	*most = wait
	stop, interrupt := context.WithCancel(ctx)
	defer interrupt()
	if wait > 0 {
		go func() {
			select {
			case <-excluded:
				interrupt()
			case <-stop.Done():
			}
		}()
	}
	list, bad, waited, err := q.Receive(ctx, n, wait, stop.Done())
	if err != nil {
		return 0, waited, err
	}
	b.stats.received.Add(int64(len(list) + len(bad)))
	// From here on the messages are renewed, however long they wait for their sessions.
	b.holder.Add(list...)
	for _, r := range bad {
		b.setAside(context.WithoutCancel(ctx), r)
	}
	if len(list) > 0 {
		handle(list)
	}
	return len(list) + len(bad), waited, nil
}
