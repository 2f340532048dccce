package budget

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Turns shares processors among accounts: a request that computes for longer than a few milliseconds takes its turns,
// and accounts take them in rotation, however many requests each has. Short requests do not take part, and a request
// that waits for its client or a disk gives its processor up. The methods are safe for concurrent use.
//
// While requests of another account come, those of an account that computes more at a time than there are processors
// take part from their first step on: otherwise each request of the other account waits behind a few milliseconds of
// every one of them. They also let others run after each step, as the runtime does only after 10 ms, and leave one of
// several processors to the requests that take no part: the system does not take a processor from a thread for some ms.
type Turns struct {
	processors int
	present    presence
	now        func() time.Time

	mu      sync.Mutex // guards the rest
	free    int        // processors that no request has
	crowds  int        // accounts that compute more requests than there are processors
	waiting map[string][]chan struct{}
	order   []string       // accounts with waiting requests; the first is next
	working map[string]int // requests of each account that compute, or wait for their turn
}

const (
	// before is the work that a request does before it takes part.
	before = 5 * time.Millisecond
	// turn is the work after which a request lets others go on, if there are any.
	turn = 10 * time.Millisecond
)

// Processors has the turns on the processors of this process.
var Processors = newTurns(runtime.GOMAXPROCS(0))

// newTurns returns the turns on n processors.
func newTurns(n int) *Turns {
	return &Turns{processors: n, free: n, waiting: make(map[string][]chan struct{}), working: make(map[string]int),
		now: time.Now}
}

// Arrived notes a request of an account. It is called for each request where several accounts are served.
func (t *Turns) Arrived(account string, now time.Time) { t.present.arrived(account, now) }

// begin counts a request that computes, until end.
func (t *Turns) begin(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working[account]++; t.working[account] == t.processors+1 {
		t.crowds++
	}
}

func (t *Turns) end(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working[account]--
	switch t.working[account] {
	case t.processors:
		t.crowds--
	case 0:
		delete(t.working, account)
	}
}

// crowded reports whether more requests of an account compute than there are processors.
func (t *Turns) crowded(account string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working[account] > t.processors
}

// presence knows which accounts have sent requests lately, as far as needed to tell whether one is alone.
type presence struct {
	mu      sync.Mutex // guards the rest
	account string     // of the last request
	at      time.Time  // when it came
	other   time.Time  // when the last request of another account came
}

// presentFor is the time for which an account counts after a request.
const presentFor = time.Second

func (p *presence) arrived(account string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.account != account {
		p.account, p.other = account, p.at
	}
	p.at = now
}

// besides reports whether requests of accounts other than the given one have come lately.
func (p *presence) besides(account string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.at
	if p.account == account {
		last = p.other
	}
	return !last.IsZero() && now.Sub(last) < presentFor
}

// several reports whether requests of more than one account have come lately.
func (p *presence) several(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.other.IsZero() && now.Sub(p.other) < presentFor
}

// kept returns how many processors are not given: one while a crowd computes beside requests of another account. The
// caller holds mu.
func (t *Turns) kept() int {
	if t.processors > 1 && t.crowds > 0 && t.present.several(t.now()) {
		return 1
	}
	return 0
}

// take waits for a processor. It returns the cause of the context's end.
func (t *Turns) take(ctx context.Context, account string) error {
	t.mu.Lock()
	if t.free > t.kept() {
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	if len(t.waiting[account]) == 0 {
		t.order = append(t.order, account)
	}
	t.waiting[account] = append(t.waiting[account], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	list := t.waiting[account]
	i := slices.Index(list, mine)
	if i >= 0 {
		t.set(account, slices.Delete(list, i, i+1))
	}
	t.mu.Unlock()
	if i < 0 {
		t.give() // it was given a processor meanwhile
	}
	return context.Cause(ctx)
}

// give gives a processor back, and those that are free to the next accounts.
func (t *Turns) give() {
	for _, next := range t.next() {
		network.release(next)
	}
}

// next takes a processor back. It returns what those requests wait for that get one.
func (t *Turns) next() (released []chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A request that waits always finds one that gives: never are all processors kept. More than one may be free, when
	// one that was kept no longer is.
	t.free++
	for kept := t.kept(); len(t.order) > 0 && t.free > kept; t.free-- {
		account := t.order[0]
		list := t.waiting[account]
		t.order = append(t.order[1:], account)
		t.set(account, list[1:])
		released = append(released, list[0])
	}
	return released
}

// set replaces the waiting requests of an account, which is in t.order.
func (t *Turns) set(account string, list []chan struct{}) {
	if len(list) > 0 {
		t.waiting[account] = list
		return
	}
	delete(t.waiting, account)
	t.order = slices.DeleteFunc(t.order, func(a string) bool { return a == account })
}

// contended reports whether a request waits.
func (t *Turns) contended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.order) > 0
}
