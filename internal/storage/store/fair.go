package store

import (
	"cmp"
	"slices"
)

// fairGroupBytes ends a group while calls of several accounts wait, in bytes of its writes. Five transactions of 100
// entities of 1 KiB have as much, and run for some 5 ms. Fewer would leave a sync to each of them on a slow disk.
const fairGroupBytes = 512 << 10

// UpdateFor is [DB.Update] on behalf of an account. While calls of several accounts wait, groups are small, and each
// has calls of all of them in turn: so a call waits for one group and a call of each other account, and not for all
// calls of an account that has many. With "" a call belongs to no account.
func (db *DB) UpdateFor(account string, fn func(*Tx) error) error {
	return db.update(&call{fn: fn, account: account})
}

// arrived notes that groups must be small if the call is of another account than the group that runs. db.mu is held.
func (db *DB) arrived(c *call) {
	if c.account != "" && db.account != "" && c.account != db.account {
		db.mixed.Store(true)
	}
}

// takeTurns orders the queue for a group that the first call leads, which stays the first. db.mu is held.
func (db *DB) takeTurns() {
	queue, several := inTurns(db.queue)
	db.queue, db.account = queue, queue[0].account
	db.mixed.Store(several)
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
