package datadir

import (
	"os"
	"time"
)

// clockTolerance is by how much files may have been written later than the clock: those of two machines differ a
// little.
const clockTolerance = time.Minute

// Ahead returns by how much the folder was written later than now; 0 unless it is more than a minute. The manifest has
// the time of the last start or stop, which a copy of the folder keeps, and the files have the times of later changes.
// It is to be asked before the folder is written to. The clock was ahead then, or is behind: times in the folder, such
// as those of leases, expiry and retention, may be later than now.
func (d *Dir) Ahead(now time.Time) time.Duration {
	ahead := max(0, d.written.Sub(now)) // the zero time is not ahead
	for n := range d.Shards() {
		entries, _ := os.ReadDir(d.Shard(n).Path()) // the caller that reads the files next gets the reason
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				ahead = max(ahead, info.ModTime().Sub(now))
			}
		}
	}
	if ahead <= clockTolerance {
		return 0
	}
	return ahead
}
