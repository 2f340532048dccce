package hub

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
)

// errNotAccepted means that the executor does not take the work.
var errNotAccepted = errors.New("no worker takes the work")

// accepts reports whether this process takes work.
func (b *Backend) accepts(kind workkind.Kind, name, version string) bool {
	b.mu.Lock()
	a, entities := b.acceptor, b.runsEntities
	b.mu.Unlock()
	if kind == workkind.Entity && entities == nil {
		return false
	}
	return a == nil || a.Accepts(kind, name, version)
}

// park gives messages of work that no worker of this process takes to another app that has the function, or hides them.
func (b *Backend) park(kind workkind.Kind, name, version string, list []*inflight.Received) {
	ctx, cancel := context.WithTimeout(context.Background(), lease.ReleaseTimeout)
	defer cancel()
	if b.apps != nil {
		var own []*inflight.Received
		list, own = inflight.SeparateOwn(list)
		b.giveBack(own) // Its messages come again.
		if b.apps.share(ctx, kind, name, version, list) {
			return
		}
	}
	for _, r := range list {
		b.hideParked(ctx, kind, name, version, r)
	}
}

// hideParked hides a message of work that no worker takes.
func (b *Backend) hideParked(ctx context.Context, kind workkind.Kind, name, version string, r *inflight.Received) {
	now, pause := b.clock.Now(), min(inflight.ParkFirst*time.Duration(max(1, r.Attempts)), inflight.ParkLast)
	if err := r.Hide(ctx, pause, false); err != nil {
		r.Release()
		return
	}
	since, say := b.parking.Add(inflight.Parked{Message: r, Kind: kind, Name: name, Version: version,
		Instance: r.Instance, Since: now, Until: now.Add(pause)})
	if say {
		b.log.Warn("work is pending: no connected worker takes it", "kind", string(kind), "name", name, "version", version,
			"instance", r.Instance, "pending", now.Sub(since).Round(time.Second))
	}
}

func (b *Backend) parkActivity(name, version string, r *inflight.Received) {
	b.park(workkind.Activity, name, version, []*inflight.Received{r})
	b.offerAccepted(workkind.Activity, name, version)
}

// offerAccepted offers parked work if this process takes it by now: an Offer that came between the refusal and the
// parking has not seen it. The session of the work must be over.
func (b *Backend) offerAccepted(kind workkind.Kind, name, version string) {
	if b.accepts(kind, name, version) {
		b.unpark(func(w inflight.Parked) bool { return w.Kind == kind && w.Name == name && w.Version == version })
	}
}

// Offer offers the work again that the executor has not taken. It is called when the executor takes other work than
// before.
func (b *Backend) Offer() { b.unpark(func(inflight.Parked) bool { return true }) }

// unpark shows the parked messages that match.
func (b *Backend) unpark(match func(inflight.Parked) bool) { b.giveBack(b.parking.Take(match)) }

// Unmatched returns the work that this process has received and that no connected worker takes.
func (b *Backend) Unmatched() []inflight.Unmatched { return b.parking.Unmatched(b.clock.Now()) }
