package queue

import (
	"bytes"
	"encoding/binary"
	"sync"
)

// hints say for each queue that is in use where its first message may be: no message of the queue is before that place.
// Without them, each Get Messages would pass what was taken or deleted before it and is not written to the file yet. A
// hint that does not exist stands for the beginning of the queue.
//
// A hint is raised by a transaction that has seen that nothing is before a place. What was written since then may be
// before it: insertions lower the hints, in the order of the log, and also what the transaction found.
type hints struct {
	mu    sync.Mutex // guards the rest
	queue map[queueID]*hint
}

// maxHints is the number of hints at which all are dropped: they are found again.
const maxHints = 100_000

type hint struct {
	first   visibleKey
	looking bool       // a transaction looks for the first message
	lowest  visibleKey // of the insertions since it began

	// Among the transactions of one group, which are committed together, no message is before here. A later one need not
	// pass what the earlier ones have taken.
	group uint64
	here  visibleKey
}

// within returns the place from which a transaction searches: from, or a later one of its group.
func (h *hints) within(id queueID, group uint64, from visibleKey) visibleKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.queue[id]; x != nil && x.group == group && bytes.Compare(from[:], x.here[:]) < 0 {
		return x.here
	}
	return from
}

// taken is called at the end of a transaction, before which no message is left.
func (h *hints) taken(id queueID, group uint64, first visibleKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.queue[id]; x != nil {
		x.group, x.here = group, first
	}
}

// placed is called for each place that a transaction gives to a message.
func (h *hints) placed(id queueID, group uint64, key *visibleKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.queue[id]; x != nil && x.group == group && bytes.Compare(key[:], x.here[:]) < 0 {
		x.here = *key
	}
}

var lastKey = visibleKey(bytes.Repeat([]byte{0xff}, len(visibleKey{})))

// look returns the place from which a queue must be searched, and whether the caller is to call found.
func (h *hints) look(id queueID) (from visibleKey, raise *hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queue == nil || len(h.queue) >= maxHints {
		h.queue = make(map[queueID]*hint)
	}
	x := h.queue[id]
	if x == nil {
		x = &hint{first: makeVisibleKey(id, 0, 0)}
		h.queue[id] = x
	}
	if x.looking {
		return x.first, nil
	}
	x.looking, x.lowest = true, lastKey
	return x.first, x
}

// again is look for a transaction that runs again.
func (h *hints) again(x *hint) visibleKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.lowest = lastKey
	return x.first
}

// found ends looking. After a transaction that was committed, no message was before first.
func (h *hints) found(x *hint, first visibleKey, committed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.looking = false
	if bytes.Compare(x.lowest[:], first[:]) < 0 {
		first = x.lowest
	}
	if committed {
		x.first = first
	}
}

// inserted is called for each new key of bucketVisible, in the order of the log, before the change is acknowledged.
func (h *hints) inserted(key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.queue[queueID(binary.BigEndian.Uint64(key))]
	if x == nil {
		return
	}
	if bytes.Compare(key, x.first[:]) < 0 {
		x.first = visibleKey(key)
	}
	if x.looking && bytes.Compare(key, x.lowest[:]) < 0 {
		x.lowest = visibleKey(key)
	}
}

// from returns the place from which a queue must be searched.
func (h *hints) from(id queueID) visibleKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.queue[id]; x != nil {
		return x.first
	}
	return makeVisibleKey(id, 0, 0)
}
