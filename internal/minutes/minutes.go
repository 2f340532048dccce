// Package minutes counts what happens in each of the last sixty minutes, for charts.
package minutes

import "time"

// Kept is the number of minutes, the current one included.
const Kept = 60

// Ring counts two kinds of things by the minute. Its zero value counts nothing yet. It is not safe for concurrent use.
type Ring [Kept]struct {
	unix int64 // of the minute
	n    [2]int64
}

// Add counts n things of a kind, 0 or 1.
func (r *Ring) Add(now time.Time, kind int, n int64) {
	minute := now.Unix() / 60
	slot := &r[(minute%Kept+Kept)%Kept]
	if slot.unix != minute {
		slot.unix, slot.n = minute, [2]int64{}
	}
	slot.n[kind] += n
}

// List returns the counts of a kind, those of the oldest minute first.
func (r *Ring) List(now time.Time, kind int) []int64 {
	minute := now.Unix() / 60
	list := make([]int64, Kept)
	for i := range list {
		at := minute - Kept + 1 + int64(i)
		if slot := r[(at%Kept+Kept)%Kept]; slot.unix == at {
			list[i] = slot.n[kind]
		}
	}
	return list
}
