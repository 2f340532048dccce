package inflight

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/workers"
)

// Work that this process does not take stays in its queue, hidden for a while: other work goes on, and after that time
// another process may receive it if it has the partition by then.
const (
	ParkFirst = 2 * time.Second
	ParkLast  = 30 * time.Second
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

type Parked struct {
	Message                 *Received
	Kind                    workkind.Kind
	Name, Version, Instance string
	Since, Until            time.Time
}

// Parking are the messages that this process does not take.
type Parking struct {
	clock workers.Clock

	mu   sync.Mutex                    // guards the rest
	list map[string]Parked             // by the message's ID
	said map[record.Function]time.Time // when the log said last that work of a function is pending
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

// SeparateOwn separates the results that are in memory alone.
func SeparateOwn(list []*Received) (others, own []*Received) {
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

// Add notes a message, and returns since when its work is pending and whether the log is to say so.
func (p *Parking) Add(w Parked) (since time.Time, say bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := w.Since
	if old, ok := p.list[w.Message.id]; ok {
		// The message has come again, and its work is pending since the first time.
		w.Since = old.Since
	} else if len(p.list) >= parkMost {
		p.prune(w.Until)
		if len(p.list) >= parkMost {
			return w.Since, false
		}
	}
	p.list[w.Message.id] = w
	f := record.Function{Kind: w.Kind, Name: w.Name, Version: w.Version}
	last, said := p.said[f]
	if now.Sub(w.Since) < sayAfter || said && now.Sub(last) < sayAgain {
		return w.Since, false
	}
	if len(p.said) >= sayMost {
		clear(p.said)
	}
	p.said[f] = now
	return w.Since, true
}

// prune forgets messages that another process has; mu is held.
func (p *Parking) prune(now time.Time) {
	for id, w := range p.list {
		if now.Sub(w.Until) > ParkLast {
			delete(p.list, id)
		}
	}
}

// reopen makes a message that was hidden one that this process can show again. If another process has received it
// meanwhile, showing it has no effect.
func (r *Received) reopen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = false
}

// Take removes and returns the parked messages that match, as ones that this process can show again.
func (p *Parking) Take(match func(Parked) bool) (list []*Received) {
	p.mu.Lock()
	for id, w := range p.list {
		if match(w) {
			list = append(list, w.Message)
			delete(p.list, id)
		}
	}
	p.mu.Unlock()
	for _, r := range list {
		r.reopen()
	}
	return list
}

// NewParking returns a place for messages that this process does not take.
func NewParking(clock workers.Clock) *Parking {
	return &Parking{clock: clock, list: map[string]Parked{}, said: map[record.Function]time.Time{}}
}

// Unmatched returns the work that this process has received and that no connected worker takes.
func (p *Parking) Unmatched(now time.Time) []Unmatched {
	p.mu.Lock()
	defer p.mu.Unlock()
	type key struct {
		kind          workkind.Kind
		name, version string
	}
	found := map[key]*Unmatched{}
	counted := map[Parked]bool{}
	p.prune(now)
	for _, w := range p.list {
		k := key{w.Kind, w.Name, w.Version}
		u := found[k]
		if u == nil {
			u = &Unmatched{Kind: string(w.Kind), Name: w.Name, Version: w.Version, Since: w.Since}
			found[k] = u
		}
		if w.Since.Before(u.Since) {
			u.Since = w.Since
		}
		// Several messages can wait for one instance. Each activity is a message of its own.
		one := Parked{Kind: w.Kind, Name: w.Name, Version: w.Version, Instance: w.Instance}
		if w.Kind == workkind.Activity || !counted[one] {
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
