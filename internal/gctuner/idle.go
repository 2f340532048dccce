package gctuner

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Memory that a burst of work has left free is returned to the system when the process is idle. By itself the runtime
// keeps the memory that the heap may grow by, which after a burst is a third of it. So are the pages of files that are
// only read: the program's own, and those of mapped databases.
const (
	// idlePause is the time between two samples.
	idlePause = 5 * time.Second
	// idleSamples is the number of consecutive samples that must find the process idle.
	idleSamples = 3
	// idleBytes bounds the allocations of an idle process between two samples.
	idleBytes = 1 << 20
	// worthBytes is the least amount to return: it costs a collection and the page faults of the next burst.
	worthBytes = 16 << 20
)

// usage is the memory of the runtime, in bytes.
type usage struct {
	allocated uint64 // since the start
	live      uint64 // found by the last collection
	objects   uint64 // live, or not collected yet
	free      uint64 // neither in use nor returned to the system
}

// idler decides when memory is returned.
type idler struct {
	last     uint64 // allocated at the last sample
	idle     int    // consecutive samples that found the process idle
	released bool   // pages of files were, since the process is idle
}

// sample reports whether it is time to return free memory of the runtime, and pages of files.
func (i *idler) sample(u usage) (free, files bool) {
	idle := u.allocated-i.last < idleBytes
	i.last = u.allocated
	if !idle {
		i.idle, i.released = 0, false
		return false, false
	}
	i.idle++
	// Once, since what is used by then is used again.
	if files = i.idle >= idleSamples && !i.released; files {
		i.released = true
	}
	gain := u.free
	if u.objects > u.live {
		gain += u.objects - u.live
	}
	return i.idle >= idleSamples && gain >= max(worthBytes, u.live/8), files
}

// watchIdle samples until done is closed.
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
		free, files := i.sample(usage{allocated: sample[0].Value.Uint64(), live: sample[1].Value.Uint64(),
			objects: sample[2].Value.Uint64(),
			free:    sample[3].Value.Uint64()})
		if free {
			debug.FreeOSMemory()
			i.idle = 0
		}
		if files {
			_, _ = release(true) // what stays does no harm
		}
	}
}
