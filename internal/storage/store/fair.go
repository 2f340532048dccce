package store

import (
	"cmp"
	"slices"
	"time"
)

// fairGroupBytes ends a group while several accounts write, in bytes of its writes. Three transactions of 100 entities
// of 1 KiB have as much. A call waits for the write and the sync of the group before it, which with 512 KiB took twice
// as long on a busy disk. Half of this leaves a sync to each of those transactions.
const fairGroupBytes = 256 << 10

// severalFor is the time for which groups stay small after calls of several accounts have waited. A client calls again
// after its answer, and would wait for the large group that began meanwhile.
const severalFor = time.Second

// UpdateFor is [DB.Update] on behalf of an account. While calls of several accounts wait, groups are small, and each
// has calls of all of them in turn: so a call waits for one group and a call of each other account, and not for all
// calls of an account that has many. With "" a call belongs to no account.
func (db *DB) UpdateFor(account string, fn func(*Tx) error) error {
	return db.update(&call{fn: fn, account: account})
}

// arrived notes that groups must be small if the call is of another account than the group that runs. It ends the wait
// of a leader for room if there is some for the call. db.mu is held.
func (db *DB) arrived(c *call) {
	if db.stalled != nil && !db.written.over(c.account) {
		db.endStall()
	}
	if c.account != "" && db.account != "" && c.account != db.account {
		db.mixed.Store(true)
		db.several = time.Now()
	}
}

// takeTurns orders the queue for a group that the first call leads, which stays the first. db.mu is held.
func (db *DB) takeTurns() {
	queue, several := inTurns(db.queue)
	db.queue, db.account = queue, queue[0].account
	switch {
	case several:
		db.mixed.Store(true)
		db.several = time.Now()
	case db.mixed.Load():
		db.mixed.Store(time.Since(db.several) < severalFor)
	}
}

// inTurns returns calls in an order in which accounts take turns, those of each in their order, and whether there are
// calls of several accounts.
func inTurns(calls []*call) (ordered []*call, several bool) {
	account := ""
	for _, c := range calls {
		if c.account != "" && account != "" && c.account != account {
			several = true
			break
		}
		account = cmp.Or(account, c.account)
	}
	if !several {
		return calls, false
	}
	rounds := make(map[string]int)
	for _, c := range calls {
		c.round = rounds[c.account]
		rounds[c.account]++
	}
	ordered = slices.Clone(calls)
	slices.SortStableFunc(ordered, func(a, b *call) int { return cmp.Compare(a.round, b.round) })
	return ordered, true
}

// limit returns the number of bytes of writes at which the group ends.
func (g *group) limit() int {
	if g.db.mixed.Load() {
		return fairGroupBytes
	}
	return maxGroupBytes
}

// shares are the bytes that accounts have written to a memtable.
type shares struct {
	of    map[string]int
	total int
}

func (s *shares) add(account string, n int) {
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.of[account] += n
	s.total += n
}

func (s *shares) reset() {
	clear(s.of)
	s.total = 0
}

// over reports whether an account has written its share, or more.
func (s *shares) over(account string) bool {
	n := s.of[account]
	return n > 0 && n*len(s.of) >= s.total
}

// countWritten notes what a group has written. A replicated store does not, as other nodes write to its memtable, too.
func (g *group) countWritten() {
	g.db.mu.Lock()
	defer g.db.mu.Unlock()
	for _, c := range g.calls[:g.next] {
		g.db.written.add(c.account, c.bytes)
	}
}

// passLead waits while the memtable is full and the leader's account has written its share of it. If a call of another
// account waits or comes meanwhile, for which there still is room, it leads instead, and passLead returns true.
//
// Writers wait when memtables fill faster than they can be written to the file, for 100 ms on a slow disk. So those
// wait who cause it. A checkpoint that fails ends the wait, too.
func (g *group) passLead() bool {
	db := g.db
	// Only leaders write, so a memtable that has room now has it when the group begins.
	if db.replica != nil || !db.full(db.layers.Load(), memtableWait) {
		return false
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.written.over(g.leader.account) {
		return false
	}
	light := func(c *call) bool { return !db.written.over(c.account) }
	i := slices.IndexFunc(db.queue, light)
	if i < 0 {
		db.awaitLight()
		i = slices.IndexFunc(db.queue, light)
	}
	if i < 0 || !db.full(db.layers.Load(), memtableWait) {
		return false
	}
	heir := db.queue[i]
	db.queue = slices.Insert(slices.Delete(slices.Clone(db.queue), i, i+1), 0, heir)
	// The leader stays in the queue, as its group was not taken yet.
	if g.leader.wake == nil {
		g.leader.wake = make(chan struct{}, 1)
	}
	g.leader.again = true
	heir.promote = true
	heir.wake <- struct{}{}
	return true
}

// awaitLight waits for a call of an account that has not written its share, or for the end of the checkpoint. db.mu is
// held, but not during the wait.
func (db *DB) awaitLight() {
	stalled := make(chan struct{})
	db.stalled = stalled
	db.mu.Unlock()
	db.startCheckpoint() // again, if the last one failed
	if db.layers.Load().frozen != nil {
		<-stalled
	}
	db.mu.Lock()
	db.endStall()
}

// endStall ends the wait of the leader, if it waits in passLead. db.mu is held.
func (db *DB) endStall() {
	if db.stalled != nil {
		close(db.stalled)
		db.stalled = nil
	}
}

// admit returns how many calls of the queue the group may take. In a full memtable these are the calls of accounts that
// have not written their share of it, which it puts first. db.mu is held.
func (g *group) admit() int {
	db := g.db
	over := func(c *call) bool { return db.written.over(c.account) }
	if db.replica != nil || !db.full(db.layers.Load(), memtableWait) || over(g.leader) {
		return len(db.queue)
	}
	g.light = true
	heavy := slices.DeleteFunc(slices.Clone(db.queue), func(c *call) bool { return !over(c) })
	light := slices.DeleteFunc(slices.Clone(db.queue), over)
	db.queue = append(light, heavy...)
	return len(light)
}

// makeRoom makes room for the group.
func (g *group) makeRoom() error {
	if g.light {
		return g.db.makeRoom(memtableWait + 1)
	}
	return g.db.makeRoom(memtableWait)
}
