package store

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// memtable holds the writes that are in the log and not yet in bbolt, for each bucket in key order. One goroutine
// inserts; any number of goroutines read at the same time without locks.
//
// Each group has a number; in a replicated store, it is the sequence of its record. Entries of the same key are
// adjacent, the newest first, so that a reader of an older state finds the entry of that state: it skips entries whose
// number is above that of its snapshot.
type memtable struct {
	lists   []skiplist // by index in DB.buckets
	bytes   int        // approximate memory; used by the inserting goroutine
	newest  uint64     // number of the last group; used by the inserting goroutine
	visible atomic.Uint64

	keys       keyFilter // of all lists
	unfiltered bool      // keys is not used

	slab []entry // the next entries; used by the inserting goroutine

	attached int // bytes of the attachments in the same generation of the log; used by the inserting goroutine

	position replog.Position // of a replicated store: after the last record; used by the inserting goroutine
}

// entryOverhead is the approximate size of an entry without its key and value, in bytes.
const entryOverhead = 128

func newMemtable(buckets int) *memtable { return &memtable{lists: make([]skiplist, buckets)} }

// slabSize is the number of entries that are allocated at once. They live as long as their memtable.
const slabSize = 32

// insert adds a write of the group that is being committed. publish makes it visible.
func (m *memtable) insert(bucket int, w Write, group uint64) {
	if len(m.slab) == 0 {
		m.slab = make([]entry, slabSize)
	}
	e := &m.slab[0]
	m.slab = m.slab[1:]
	e.Write, e.group = w, group
	if !m.unfiltered {
		m.keys.add(bucket, w.Key)
	}
	m.lists[bucket].insert(e)
	m.bytes += len(w.Key) + len(w.Value) + entryOverhead
}

// empty reports whether the memtable has no entry. Unlike bytes, it is for all goroutines.
func (m *memtable) empty() bool {
	for i := range m.lists {
		if !m.lists[i].empty() {
			return false
		}
	}
	return true
}

func (m *memtable) publish(group uint64) {
	m.newest = group
	m.visible.Store(group)
}

const maxHeight = 12 // 4^12 entries

// skiplist is ordered by key ascending, then group descending.
type skiplist struct {
	head   [maxHeight]atomic.Pointer[entry]
	height atomic.Int32 // levels in use

	// The last insertion, of its goroutine only: on each level in use the entry that was inserted, or else the last one
	// before it; nil is the head.
	recent [maxHeight]*entry
}

type entry struct {
	Write // the value has its checksum
	group uint64
	next  []atomic.Pointer[entry]
	room  [2]atomic.Pointer[entry] // what next points to if it is short, as that of 15 entries of 16
}

func (l *skiplist) empty() bool { return l.head[0].Load() == nil }

// link returns the pointer to the successor of e, or of the head if e is nil.
func (l *skiplist) link(e *entry, level int) *atomic.Pointer[entry] {
	if e == nil {
		return &l.head[level]
	}
	return &e.next[level]
}

func (l *skiplist) insert(e *entry) {
	height := 1
	for height < maxHeight && rand.Uint32()%4 == 0 {
		height++
	}
	if int32(height) > l.height.Load() {
		l.height.Store(int32(height))
	}
	if height <= len(e.room) {
		e.next = e.room[:height]
	} else {
		e.next = make([]atomic.Pointer[entry], height)
	}
	// The writes of a group come in key order, so the place is usually close after that of the last insertion. The search
	// climbs from there to a level on which no entry is in between. What is recent on the levels above stays right: an
	// entry in between would be on this level as well.
	level, at := int(l.height.Load())-1, (*entry)(nil)
	if last := l.recent[0]; last != nil && !before(e.Key, e.group, last) {
		for climbed := 0; climbed < level; climbed++ {
			if next := l.link(l.recent[climbed], climbed).Load(); next == nil || before(e.Key, e.group, next) {
				level = climbed
				break
			}
		}
		at = l.recent[level]
	}
	for ; level >= 0; level-- {
		for {
			next := l.link(at, level).Load()
			if next == nil || before(e.Key, e.group, next) {
				break
			}
			at = next
		}
		l.recent[level] = at
	}
	// Link from the lowest level up, so that a reader that finds the entry can continue from it.
	for level := range e.next {
		link := l.link(l.recent[level], level)
		e.next[level].Store(link.Load())
		link.Store(e)
		l.recent[level] = e
	}
}

// before reports whether (key, group) sorts before e.
func before(key []byte, group uint64, e *entry) bool {
	order := bytes.Compare(key, e.Key)
	return order < 0 || order == 0 && group > e.group
}

// seek returns the newest visible entry of the first key at or after key that has an entry visible to a snapshot.
func (l *skiplist) seek(key []byte, snapshot uint64) *entry {
	var at *entry
	for level := int(l.height.Load()) - 1; level >= 0; level-- {
		for {
			next := l.link(at, level).Load()
			// Entries of the key itself that are too new are skipped as well.
			if next == nil || before(key, snapshot, next) {
				break
			}
			if next.group == snapshot && bytes.Equal(next.Key, key) {
				return next
			}
			at = next
		}
	}
	return visible(l.link(at, 0).Load(), snapshot)
}

func visible(e *entry, snapshot uint64) *entry {
	for e != nil && e.group > snapshot {
		e = e.next[0].Load()
	}
	return e
}

// after returns the result of seek for the key after e's.
func (l *skiplist) after(e *entry, snapshot uint64) *entry {
	next := e
	for range 8 {
		next = next.next[0].Load()
		if next == nil || !bytes.Equal(next.Key, e.Key) {
			return visible(next, snapshot)
		}
	}
	// A key that changes often has many entries.
	return l.seek(append(bytes.Clone(e.Key), 0), snapshot)
}

// following returns the newest entry of the key that follows e's, nil at the end. Nothing may be inserted meanwhile.
func (e *entry) following() *entry {
	for next := e.next[0].Load(); next != nil; next = next.next[0].Load() {
		if !bytes.Equal(next.Key, e.Key) {
			return next
		}
	}
	return nil
}

// get returns the entry of key that a snapshot sees, or nil.
func (m *memtable) get(bucket int, key []byte, snapshot uint64) *entry {
	l := &m.lists[bucket]
	if l.empty() || !m.unfiltered && !m.keys.mayHave(bucket, key) {
		return nil
	}
	if e := l.seek(key, snapshot); e != nil && bytes.Equal(e.Key, key) {
		return e
	}
	return nil
}

// spot is an entry of a memtable, in the bucket with that index. Past the last entry it is nil.
type spot struct {
	bucket int
	entry  *entry
}

// first returns the first entry in that bucket or a later one.
func (m *memtable) first(bucket int) spot {
	for ; bucket < len(m.lists); bucket++ {
		if e := m.lists[bucket].seek(nil, math.MaxUint64); e != nil {
			return spot{bucket, e}
		}
	}
	return spot{}
}
