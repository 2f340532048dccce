// Package gather decides how long a group commit waits for more calls.
//
// A commit costs some processor time and the time of the disk, and little more when it has many calls. Calls that come
// during a commit form the next group, and callers that were just answered miss it: then two groups take turns, each
// with half of the clients.
//
// So the leader of a group waits for the callers that the last group has answered, because clients that wait for an
// answer call again soon. It waits until there are as many calls as at the end of the last group, or for as long as the
// last commit took. If most of them do not come, the following groups begin without a wait: clients that call at times
// of their own must not pay for it. A single client never waits.
package gather

import (
	"cmp"
	"time"
)

const (
	// maxWait bounds the wait of a leader for more calls.
	maxWait = 10 * time.Millisecond
	// maxSkip is the largest number of groups that begin without a wait after one without a result.
	maxSkip = 64
	// aloneAfter is the number of groups of one call in a row after which a single client is assumed.
	aloneAfter = 16
)

// Gatherer decides for the groups of one queue. Its methods need a lock, which also guards the queue. The zero value is
// ready.
type Gatherer struct {
	// Limit replaces the bound of a wait if it is not zero, for tests.
	Limit time.Duration

	expected int           // calls that the last group has answered, and calls that waited then
	took     time.Duration // time of its commit
	ended    time.Time
	single   int // groups in a row that had one call, while no other one waited

	skip     int // groups that begin without a wait
	nextSkip int // skip after the next wait without a result

	want int           // of the leader that waits: number of calls in the queue; 0 if none waits
	full chan struct{} // closed when they are there
}

// Begin returns how long a leader waits for more calls, and a channel that is closed when they are there. The time is 0
// if it does not wait; otherwise the leader calls End when the wait is over.
func (g *Gatherer) Begin(queued int, now time.Time) (time.Duration, <-chan struct{}) {
	limit := min(g.took, cmp.Or(g.Limit, maxWait))
	switch {
	case queued >= g.expected || now.Sub(g.ended) > limit:
		return 0, nil
	case g.skip > 0:
		g.skip--
		return 0, nil
	}
	g.want, g.full = g.expected, make(chan struct{})
	return limit, g.full
}

// Arrived tells the leader that waits of a call that was added to the queue.
func (g *Gatherer) Arrived(queued int) {
	if g.want > 0 && queued >= g.want {
		close(g.full)
		g.want, g.full = 0, nil
	}
}

// End ends the wait of a leader. It had no result if an eighth of the calls is missing. Calls that arrive at a constant
// rate make up three quarters at most: as many as during the last two commits were expected, and more than one commit
// and a half has not passed.
func (g *Gatherer) End(queued int) {
	g.want, g.full = 0, nil
	if queued >= g.expected-g.expected/8 {
		g.nextSkip = 1
		return
	}
	g.skip = max(g.nextSkip, 1)
	g.nextSkip = min(2*g.skip, maxSkip)
}

// Alone reports whether there seems to be a single client: yielding to others before a group begins has no result then.
func (g *Gatherer) Alone() bool { return g.single >= aloneAfter }

// Committed notes the end of a commit that began at began, and the number of calls that wait for the next one.
func (g *Gatherer) Committed(answered, queued int, began, now time.Time) {
	g.expected, g.took, g.ended = answered+queued, now.Sub(began), now
	if g.single++; g.expected > 1 {
		g.single = 0
	}
}

// Wait waits for as long as Begin has returned. It must be called without the lock.
func Wait(limit time.Duration, full <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
}

// Await returns a channel that is closed when a number of calls wait, or at Cancel; nil if they do.
func (g *Gatherer) Await(queued, want int) <-chan struct{} {
	if queued >= want {
		return nil
	}
	g.want, g.full = want, make(chan struct{})
	return g.full
}

// Cancel ends the wait for the channel of Await.
func (g *Gatherer) Cancel() {
	if g.want > 0 {
		close(g.full)
	}
	g.want, g.full = 0, nil
}
