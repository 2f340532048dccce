package figures

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The bounds of a [History]: 500 queues with 11 KiB each.
const (
	maxQueues   = 500
	hourSlots   = 60  // of a minute
	daySlots    = 288 // of five minutes
	DaySlotSpan = 5 * time.Minute
)

// Figure names a number that is counted of a queue.
type Figure int

// The figures. The first are counted, the last two are those of the latest sample in a slot.
const (
	Put Figure = iota
	Received
	Again // of the received, those that were received before
	Deleted
	Depth  // messages
	Oldest // seconds since the first visible message was put
	figures
)

// slot has the figures of a minute, or of five. Samples are kept plus one: 0 means that there is no sample.
type slot struct {
	at int64 // its number since 1970; 0 is an empty slot, and 1970 is no time of a server
	n  [figures]int32
}

// queueHistory has the figures of one queue.
type queueHistory struct {
	hour   [hourSlots]slot
	day    [daySlots]slot
	last   int64    // unix seconds of the latest count
	sample [2]int32 // the latest Depth and Oldest, plus one
	// changed says that messages were counted since the latest sample.
	changed bool
}

// History has the figures of queues over the last hour, by the minute, and over the last day. It is safe for concurrent
// use.
type History struct {
	now func() time.Time

	mu     sync.Mutex // guards the next fields
	queues map[Queue]*queueHistory
	dirty  bool // there is something that the file does not have
}

// New makes an empty history.
func New(now func() time.Time) *History {
	return &History{now: now, queues: make(map[Queue]*queueHistory)}
}

// Queue names a queue of an account.
type Queue struct{ Account, Name string }

// Observe counts the messages that a request put, received or deleted.
func (h *History) Observe(r *wire.Request, now time.Time) {
	touched := r.Touched()
	if len(touched) == 0 {
		return
	}
	queue, _, _ := strings.Cut(strings.TrimPrefix(r.RawPath, "/"), "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queue(Queue{r.Account, queue})
	for _, t := range touched {
		switch t.Kind {
		case wire.MessagePut:
			q.add(now, Put)
		case wire.MessageReceived:
			q.add(now, Received)
			if t.Attempts > 1 {
				q.add(now, Again)
			}
		case wire.MessageDeleted:
			q.add(now, Deleted)
		case wire.MessageUpdated:
			continue
		}
	}
	q.last, q.changed, h.dirty = now.Unix(), true, true
}

// queue returns the figures of a queue, which it makes if they are missing. If there are too many then, those of the
// queue that was idle longest are forgotten. h.mu is held.
func (h *History) queue(name Queue) *queueHistory {
	if q := h.queues[name]; q != nil {
		return q
	}
	if len(h.queues) >= maxQueues {
		var oldest Queue
		first := true
		for other, q := range h.queues {
			if first || q.last < h.queues[oldest].last {
				oldest, first = other, false
			}
		}
		delete(h.queues, oldest)
	}
	q := new(queueHistory)
	// The names are parts of requests, which would be kept with them.
	h.queues[Queue{strings.Clone(name.Account), strings.Clone(name.Name)}] = q
	return q
}

// slots returns the slots for a time: of the minute, and of the five minutes.
func (q *queueHistory) slots(now time.Time) [2]*slot {
	minute, five := now.Unix()/60, now.Unix()/int64(DaySlotSpan/time.Second)
	both := [2]*slot{&q.hour[index(minute, hourSlots)], &q.day[index(five, daySlots)]}
	for i, at := range [2]int64{minute, five} {
		if both[i].at != at {
			*both[i] = slot{at: at}
		}
	}
	return both
}

// index is the place of a slot in its ring, also for a clock before 1970.
func index(at int64, n int64) int64 { return (at%n + n) % n }

func (q *queueHistory) add(now time.Time, f Figure) {
	for _, s := range q.slots(now) {
		s.n[f]++
	}
}

// due returns the queues to sample: those whose messages have changed, and with idle also those that had messages.
func (h *History) due(idle bool) (list []Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, q := range h.queues {
		if q.changed || idle && q.sample[0] > 1 {
			list = append(list, name)
		}
	}
	return list
}

// Sampled records how many messages a queue has and how old the first visible one is. A queue that is gone has none.
func (h *History) Sampled(name Queue, now time.Time, depth int, oldest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queue(name)
	q.changed, h.dirty = false, true
	q.sample = [2]int32{plusOne(int64(depth)), plusOne(int64(oldest / time.Second))}
	for _, s := range q.slots(now) {
		s.n[Depth], s.n[Oldest] = q.sample[0], q.sample[1]
	}
}

// plusOne is n+1 within the bounds of a slot's number.
func plusOne(n int64) int32 { return int32(max(0, min(n, 1<<31-2)) + 1) }

// span is a range of a chart.
type span struct {
	Name  string // in the address: "hour"
	Title string // "last hour"
	Slots int
	Step  time.Duration
}

var (
	LastHour = span{"hour", "last hour", hourSlots, time.Minute}
	LastDay  = span{"day", "last day", daySlots, DaySlotSpan}
)

// List returns a figure of a queue in each slot of a span, the oldest first. A sample holds until the next one; slots
// before the first sample have -1.
func (h *History) List(name Queue, s span, f Figure, now time.Time) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]int64, s.Slots)
	q := h.queues[name]
	// A queue without history has zero in each slot, and no depth: the value of "not sampled" is -1.
	if q == nil {
		q = new(queueHistory)
	}
	// Counts are of one slot each. Depth and age are of the moment of the sample, and hold until the next.
	ring, sampled := q.hour[:], f >= Depth
	if s.Slots == daySlots {
		ring = q.day[:]
	}
	last, value := now.Unix()/int64(s.Step/time.Second), int64(-1)
	for i := range out {
		at := last - int64(s.Slots) + 1 + int64(i)
		// The ring is not cleared as time passes: a slot whose moment is another one is from an earlier turn.
		found := ring[index(at, int64(s.Slots))]
		switch {
		case found.at != at && sampled:
			out[i] = value
		case found.at != at:
		case sampled:
			// Stored plus one, since zero means that the slot has no sample.
			if n := int64(found.n[f]); n > 0 {
				value = n - 1
			}
			out[i] = value
		default:
			out[i] = int64(found.n[f])
		}
	}
	return out
}

// The file of a history.
const (
	historyKind    = "lazuli dashboard history"
	historyVersion = 1
)

// savedQueue is a queue in the file. Slots has the numbers of the slots that are not empty, as varints: the span (0 or
// 1), the slot's number, its figures.
type savedQueue struct {
	Account, Queue string
	Last           int64
	Sample         [2]int32
	Slots          []byte
}

// save writes the file, if something has changed since.
func (h *History) save(path string) error {
	h.mu.Lock()
	if !h.dirty {
		h.mu.Unlock()
		return nil
	}
	h.dirty = false
	list := make([]savedQueue, 0, len(h.queues))
	for name, q := range h.queues {
		s := savedQueue{Account: name.Account, Queue: name.Name, Last: q.last, Sample: q.sample}
		for kind, ring := range [2][]slot{q.hour[:], q.day[:]} {
			for i := range ring {
				if ring[i].at == 0 {
					continue
				}
				s.Slots = binary.AppendVarint(binary.AppendVarint(s.Slots, int64(kind)), ring[i].at)
				for _, n := range ring[i].n {
					s.Slots = binary.AppendVarint(s.Slots, int64(n))
				}
			}
		}
		list = append(list, s)
	}
	h.mu.Unlock() // the disk is slower than requests may be
	slices.SortFunc(list, func(a, b savedQueue) int {
		return strings.Compare(a.Account+"/"+a.Queue, b.Account+"/"+b.Queue)
	})
	err := sumfile.Write(disk.OS, path, historyKind, historyVersion, list)
	if err != nil {
		h.mu.Lock()
		h.dirty = true
		h.mu.Unlock()
	}
	return err
}

// load reads the file; what was counted meanwhile stays. A missing file is an empty one.
func (h *History) load(path string) error {
	var list []savedQueue
	if err := sumfile.Read(path, historyKind, historyVersion, &list); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range list {
		name := Queue{s.Account, s.Queue}
		if h.queues[name] != nil || len(h.queues) >= maxQueues {
			continue
		}
		q := h.queue(name)
		q.last, q.sample = s.Last, s.Sample
		if err := q.parse(s.Slots); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the slots of savedQueue.
func (q *queueHistory) parse(p []byte) error {
	next := func() (v int64, ok bool) {
		v, n := binary.Varint(p)
		if n <= 0 {
			return 0, false
		}
		p = p[n:]
		return v, true
	}
	// The file has a checksum, yet the numbers are checked: they become indexes and sizes, and a file of another release
	// may pass the sum.
	for len(p) > 0 {
		kind, _ := next()
		at, ok := next()
		if !ok || at <= 0 || kind < 0 || kind > 1 {
			return sumfile.ErrDamaged
		}
		s := slot{at: at}
		for f := range s.n {
			v, ok := next()
			if !ok || v < 0 || v > 1<<31-1 {
				return sumfile.ErrDamaged
			}
			s.n[f] = int32(v)
		}
		if kind == 0 {
			q.hour[index(at, hourSlots)] = s
		} else {
			q.day[index(at, daySlots)] = s
		}
	}
	return nil
}
