package gctuner

import (
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// Memory that a burst of work has left free is returned to the system when the process is idle. By itself the runtime
// keeps the memory that the heap may grow by, which after a burst is a third of it. So are the pages of files that are
// only read: the program's own, and those of mapped databases. What else the process could do without, such as memory
// of writes that are not in their file yet, is the matter of functions that are registered by [WhenIdle].
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

// sample reports whether it is time to return free memory of the runtime, and whether the process has just become idle:
// then pages of files are returned as well.
func (i *idler) sample(u usage) (free, first bool) {
	idle := u.allocated-i.last < idleBytes
	i.last = u.allocated
	if !idle {
		i.idle, i.released = 0, false
		return false, false
	}
	i.idle++
	// Once, since what is used by then is used again.
	if first = i.idle >= idleSamples && !i.released; first {
		i.released = true
	}
	gain := u.free
	if u.objects > u.live {
		gain += u.objects - u.live
	}
	return i.idle >= idleSamples && gain >= max(worthBytes, u.live/8), first
}

// idleWork are the functions of WhenIdle.
var idleWork struct {
	sync.Mutex
	list []*func() bool
}

// WhenIdle has f called each time that the process has become idle, until remove is called. f reports whether it has
// made memory free, which is then returned to the system. The calls need the pace of this process: see [Pace.Start].
func WhenIdle(f func() bool) (remove func()) {
	idleWork.Lock()
	defer idleWork.Unlock()
	idleWork.list = append(idleWork.list, &f)
	return func() {
		idleWork.Lock()
		defer idleWork.Unlock()
		idleWork.list = slices.DeleteFunc(idleWork.list, func(g *func() bool) bool { return g == &f })
	}
}

// runIdleWork reports whether memory became free. It holds no lock during the calls, which may take long.
func runIdleWork() (freed bool) {
	idleWork.Lock()
	list := slices.Clone(idleWork.list)
	idleWork.Unlock()
	for _, f := range list {
		freed = (*f)() || freed
	}
	return freed
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
		free, first := i.sample(usage{allocated: sample[0].Value.Uint64(), live: sample[1].Value.Uint64(),
			objects: sample[2].Value.Uint64(),
			free:    sample[3].Value.Uint64()})
		if first && runIdleWork() {
			free = true
			// What that work has allocated does not make the process busy.
			metrics.Read(sample[:1])
			i.last = sample[0].Value.Uint64()
		}
		if free {
			debug.FreeOSMemory()
			i.idle = 0
		}
		if first {
			_, _ = release(true) // what stays does no harm
		}
	}
}
