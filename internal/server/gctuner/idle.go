package gctuner

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What a burst of work has left behind goes back to the system once the process has had next to nothing to do for a while. By itself
// the runtime keeps what the heap may grow by, which after a burst is a third of it.
const (
	// idlePause is the time between two looks.
	idlePause = 5 * time.Second
	// idleLooks is how many looks in a row must find the process idle.
	idleLooks = 3
	// idleBytes is what an idle process may allocate between two looks.
	idleBytes = 1 << 20
	// worthBytes is what must be to gain: a collection and the page faults of the next burst are the price.
	worthBytes = 16 << 20
)

// usage is what the runtime says of its memory, in bytes.
type usage struct {
	allocated uint64 // ever
	live      uint64 // found by the last collection
	objects   uint64 // live, or not collected yet
	free      uint64 // not in use, and not given back
}

// idler decides when memory goes back.
type idler struct {
	last  uint64 // allocated at the last look
	looks int    // that found the process idle, in a row
}

// look reports whether it is time to give memory back.
func (i *idler) look(u usage) bool {
	idle := u.allocated-i.last < idleBytes
	i.last = u.allocated
	if !idle {
		i.looks = 0
		return false
	}
	i.looks++
	gain := u.free
	if u.objects > u.live {
		gain += u.objects - u.live
	}
	return i.looks >= idleLooks && gain >= max(worthBytes, u.live/8)
}

// watchIdle looks until done is closed.
func watchIdle(done <-chan struct{}) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	ticker := time.NewTicker(idlePause)
	defer ticker.Stop()
	var i idler
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		metrics.Read(sample)
		if i.look(usage{allocated: sample[0].Value.Uint64(), live: sample[1].Value.Uint64(), objects: sample[2].Value.Uint64(),
			free: sample[3].Value.Uint64()}) {
			debug.FreeOSMemory()
			i.looks = 0
		}
	}
}
