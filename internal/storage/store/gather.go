package store

import (
	"cmp"
	"time"
)

// An append to a replicated log takes some processor time on each node, and little more when it has many writes. Calls that come during an
// append form the next group, and callers that were just answered miss it: then two groups take turns, each with half of the clients.
//
// So the leader of a group waits for the callers that the last group has answered, because clients that wait for an answer call again soon. It
// waits until there are as many calls as at the end of the last group, or for as long as the last commit took. If most of them do not come,
// the following groups begin without a wait: clients that call at times of their own must not pay for it.

const (
	// maxGather bounds the wait of a leader for more calls.
	maxGather = 10 * time.Millisecond
	// maxUngathered is the largest number of groups that begin without a wait after one without a result.
	maxUngathered = 64
)

// gathering decides how long the leader of a group waits for more calls. DB.mu guards it.
type gathering struct {
	limit time.Duration // replaces maxGather if it is not zero

	expected int           // calls that the last group has answered, and calls that waited then
	took     time.Duration // time of its commit
	ended    time.Time

	skip     int // groups that begin without a wait
	nextSkip int // skip after the next wait without a result

	want int           // of the leader that waits: number of calls in the queue; 0 if none waits
	full chan struct{} // closed when they are there
}

// begin returns how long a leader waits for more calls, and a channel that is closed when they are there. The time is 0 if it does not wait.
func (g *gathering) begin(queued int, now time.Time) (time.Duration, <-chan struct{}) {
	limit := min(g.took, cmp.Or(g.limit, maxGather))
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

// arrived tells the leader that waits of a call that was added to the queue.
func (g *gathering) arrived(queued int) {
	if g.want > 0 && queued >= g.want {
		close(g.full)
		g.want, g.full = 0, nil
	}
}

// end ends the wait of a leader. It had no result if an eighth of the calls is missing. Calls that arrive at a constant rate make up three
// quarters at most: as many as during the last two commits were expected, and more than one commit and a half has not passed.
func (g *gathering) end(queued int) {
	g.want, g.full = 0, nil
	if queued >= g.expected-g.expected/8 {
		g.nextSkip = 1
		return
	}
	g.skip = max(g.nextSkip, 1)
	g.nextSkip = min(2*g.skip, maxUngathered)
}

// groupEnded notes the end of a group that took its calls from the queue at began.
func (g *gathering) groupEnded(answered, queued int, began, now time.Time) {
	g.expected, g.took, g.ended = min(answered+queued, maxGroup), now.Sub(began), now
}

// gather waits for more calls, if the store is replicated.
func (g *group) gather() {
	db := g.db
	if db.replica == nil {
		return
	}
	db.mu.Lock()
	limit, full := db.gathering.begin(len(db.queue), time.Now())
	db.mu.Unlock()
	if limit == 0 {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.gathering.end(len(db.queue))
}
