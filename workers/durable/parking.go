package durable

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/workers"
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

// Work that this process does not take stays in its queue, hidden for a while: other work goes on, and after that time
// another process may receive it if it has the partition by then.
const (
	parkFirst = 2 * time.Second
	parkLast  = 30 * time.Second
	// parkMost bounds the parked messages that Offer makes visible; others appear by themselves.
	parkMost = 10_000
)

// Unmatched is work that no connected worker takes.
type Unmatched struct {
	// Kind is "orchestration", "activity" or "entity".
	Kind          string
	Name, Version string
	// Instances is the number of instances, that activities or entities wait.
	Instances int
	// Since is the time at which the first of them was found.
	Since time.Time
}

type parked struct {
	message                 *received
	kind                    workkind.Kind
	name, version, instance string
	since, until            time.Time
}

// parking are the messages that this process does not take.
type parking struct {
	clock workers.Clock

	mu   sync.Mutex             // guards the rest
	list map[string]parked      // by the message's ID
	said map[function]time.Time // when the log said last that work of a function is pending
}

// Bounds of what the log says about pending work.
const (
	// sayAfter is the time for which work is pending before the log says so. Workers that restart take less.
	sayAfter = 30 * time.Second
	// sayAgain is the time between two lines about one function.
	sayAgain = 10 * time.Minute
	// sayMost bounds the functions that lines are remembered of.
	sayMost = 1000
)

// park gives messages of work that no worker of this process takes to another app that has the function, or hides them.
func (b *Backend) park(kind workkind.Kind, name, version string, list []*received) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if b.apps != nil {
		var own []*received
		list, own = separateOwn(list)
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
func (b *Backend) hideParked(ctx context.Context, kind workkind.Kind, name, version string, r *received) {
	now, pause := b.clock.Now(), min(parkFirst*time.Duration(max(1, r.attempts)), parkLast)
	if err := r.hide(ctx, pause, false); err != nil {
		r.release()
		return
	}
	since, say := b.parking.add(parked{r, kind, name, version, r.Instance, now, now.Add(pause)})
	if say {
		b.log.Warn("work is pending: no connected worker takes it", "kind", string(kind), "name", name, "version", version,
			"instance", r.Instance, "pending", now.Sub(since).Round(time.Second))
	}
}

// separateOwn separates the results that are in memory alone.
func separateOwn(list []*received) (others, own []*received) {
	for _, r := range list {
		r.mu.Lock()
		if r.own != nil {
			own = append(own, r)
		} else {
			others = append(others, r)
		}
		r.mu.Unlock()
	}
	return others, own
}

func (b *Backend) parkActivity(name, version string, r *received) {
	b.park(workkind.Activity, name, version, []*received{r})
	b.offerAccepted(workkind.Activity, name, version)
}

// offerAccepted offers parked work if this process takes it by now: an Offer that came between the refusal and the
// parking has not seen it. The session of the work must be over.
func (b *Backend) offerAccepted(kind workkind.Kind, name, version string) {
	if b.accepts(kind, name, version) {
		b.unpark(func(w parked) bool { return w.kind == kind && w.name == name && w.version == version })
	}
}

// add notes a message, and returns since when its work is pending and whether the log is to say so.
func (p *parking) add(w parked) (since time.Time, say bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := w.since
	if old, ok := p.list[w.message.id]; ok {
		// The message has come again, and its work is pending since the first time.
		w.since = old.since
	} else if len(p.list) >= parkMost {
		p.prune(w.until)
		if len(p.list) >= parkMost {
			return w.since, false
		}
	}
	p.list[w.message.id] = w
	f := function{w.kind, w.name, w.version}
	last, said := p.said[f]
	if now.Sub(w.since) < sayAfter || said && now.Sub(last) < sayAgain {
		return w.since, false
	}
	if len(p.said) >= sayMost {
		clear(p.said)
	}
	p.said[f] = now
	return w.since, true
}

// prune forgets messages that another process has; mu is held.
func (p *parking) prune(now time.Time) {
	for id, w := range p.list {
		if now.Sub(w.until) > parkLast {
			delete(p.list, id)
		}
	}
}

// Offer offers the work again that the executor has not taken. It is called when the executor takes other work than
// before.
func (b *Backend) Offer() { b.unpark(func(parked) bool { return true }) }

// unpark shows the parked messages that match.
func (b *Backend) unpark(match func(parked) bool) {
	b.parking.mu.Lock()
	var list []*received
	for id, w := range b.parking.list {
		if match(w) {
			list = append(list, w.message)
			delete(b.parking.list, id)
		}
	}
	b.parking.mu.Unlock()
	for _, r := range list {
		r.reopen()
	}
	b.giveBack(list)
}

// reopen makes a message that was hidden one that this process can show again. If another process has received it
// meanwhile, showing it has no effect.
func (r *received) reopen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = false
}

// Unmatched returns the work that this process has received and that no connected worker takes.
func (b *Backend) Unmatched() []Unmatched {
	b.parking.mu.Lock()
	defer b.parking.mu.Unlock()
	type key struct {
		kind          workkind.Kind
		name, version string
	}
	found := map[key]*Unmatched{}
	counted := map[parked]bool{}
	b.parking.prune(b.clock.Now())
	for _, w := range b.parking.list {
		k := key{w.kind, w.name, w.version}
		u := found[k]
		if u == nil {
			u = &Unmatched{Kind: string(w.kind), Name: w.name, Version: w.version, Since: w.since}
			found[k] = u
		}
		if w.since.Before(u.Since) {
			u.Since = w.since
		}
		// Several messages can wait for one instance. Each activity is a message of its own.
		one := parked{kind: w.kind, name: w.name, version: w.version, instance: w.instance}
		if w.kind == workkind.Activity || !counted[one] {
			u.Instances++
		}
		counted[one] = true
	}
	var list []Unmatched
	for _, u := range found {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Unmatched) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return list
}
