package store

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
)

// A Write is one change of one key. A nil Value means that the key is deleted.
type Write struct {
	Key, Value []byte
}

// Deleted reports whether the write removes its key.
func (w *Write) Deleted() bool { return w.Value == nil }

// WriteSet is the set of all writes of one Update closure: for each bucket the last write of each key, in key order. It
// is merged into the set of its group when the closure returns nil. The log contains the write set of a group, which is
// complete: applied to the same state elsewhere, it gives the same result.
type WriteSet struct {
	buckets  []*bucketWrites
	attached []Write  // see Tx.Attach; not part of All and Len
	bytes    int      // approximate size of keys and values
	notes    []string // see Tx.Note

	spare []*bucketWrites // empty ones to use again
}

// All yields the writes: buckets in order of first use, keys in byte order.
func (s *WriteSet) All() iter.Seq2[Bucket, Write] {
	return func(yield func(Bucket, Write) bool) {
		for _, b := range s.buckets {
			for _, run := range b.runs {
				for _, w := range run {
					if !yield(b.bucket, w) {
						return
					}
				}
			}
		}
	}
}

// Len returns the number of writes.
func (s *WriteSet) Len() int {
	n := 0
	for _, b := range s.buckets {
		for _, run := range b.runs {
			n += len(run)
		}
	}
	return n
}

// of returns the writes of one bucket, which it creates if necessary.
func (s *WriteSet) of(b Bucket) *bucketWrites {
	for _, x := range s.buckets {
		if x.bucket == b {
			return x
		}
	}
	var x *bucketWrites
	if n := len(s.spare); n > 0 {
		x, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		x = new(bucketWrites)
	}
	x.bucket = b
	s.buckets = append(s.buckets, x)
	return x
}

// reset removes all writes. It keeps the memory for about as many as one run holds.
func (s *WriteSet) reset() {
	for _, b := range s.buckets {
		b.reset()
	}
	s.spare = append(s.spare, s.buckets...)
	s.buckets = s.buckets[:0]
	clear(s.attached)
	s.attached = s.attached[:0]
	s.bytes = 0
	clear(s.notes)
	s.notes = s.notes[:0]
}

// size returns the approximate size of the writes and attachments in bytes.
func (s *WriteSet) size() int {
	n := s.bytes
	for i := range s.attached {
		n += len(s.attached[i].Value)
	}
	return n
}

func (s *WriteSet) get(b Bucket, key []byte) *Write {
	for _, x := range s.buckets {
		if x.bucket == b {
			if w := x.entry(x.search(key)); w != nil && bytes.Equal(w.Key, key) {
				return w
			}
		}
	}
	return nil
}

func (s *WriteSet) put(b Bucket, key, value []byte) {
	s.bytes += len(key) + len(value)
	s.of(b).put(Write{key, value})
}

// merge adds the writes of a later set.
func (s *WriteSet) merge(later *WriteSet) {
	s.bytes += later.bytes
	s.attached = append(s.attached, later.attached...)
	s.notes = append(s.notes, later.notes...)
	for _, x := range later.buckets {
		to := s.of(x.bucket)
		for _, run := range x.runs {
			to.putAll(run)
		}
	}
}

// The headers of a message of the replicated log, for people who look at the stream: how many transactions it holds,
// and for each different note of them (see Tx.Note) how many have it.
const (
	HeaderChanges = "Lazuli-Changes"
	HeaderChange  = "Lazuli-Change"
)

// maxNotes is the maximum number of different notes in a message.
const maxNotes = 64

// noteHeaders returns the headers for the notes, nil without notes.
func (s *WriteSet) noteHeaders() map[string][]string {
	if len(s.notes) == 0 {
		return nil
	}
	headers := map[string][]string{HeaderChanges: {strconv.Itoa(len(s.notes))}}
	if len(s.notes) == 1 {
		headers[HeaderChange] = []string{"1 " + s.notes[0]}
		return headers
	}
	counts := make(map[string]int)
	var order []string
	for _, note := range s.notes {
		if counts[note]++; counts[note] == 1 {
			order = append(order, note)
		}
	}
	for i, note := range order {
		if i == maxNotes {
			headers[HeaderChange] = append(headers[HeaderChange], fmt.Sprintf("%d others", len(order)-i))
			break
		}
		headers[HeaderChange] = append(headers[HeaderChange], strconv.Itoa(counts[note])+" "+note)
	}
	return headers
}

// maxRun is the maximum length of a run. It limits the cost of an insertion.
const maxRun = 256

// bucketWrites holds writes in key order: as runs of at most maxRun, none of them empty. A usual set of up to a hundred
// writes is one sorted slice; insertion into a hundred thousand writes stays cheap.
type bucketWrites struct {
	bucket Bucket
	runs   [][]Write
	room   []Write // empty: memory for the first run
	gen    int     // changes when positions become invalid

	last    position // of the last write that was added, while gen is lastGen
	lastGen int
}

// reset removes all writes. It keeps the memory of the first run.
func (b *bucketWrites) reset() {
	if len(b.runs) > 0 {
		clear(b.runs[0])
		b.room = b.runs[0][:0]
	}
	clear(b.runs)
	b.runs = b.runs[:0]
	b.gen++
}

// A position is an index in bucketWrites; past the last write, run is len(runs).
type position struct{ run, i int }

// search returns the position of the first write at or after key.
func (b *bucketWrites) search(key []byte) position {
	r := sort.Search(len(b.runs), func(i int) bool {
		run := b.runs[i]
		return bytes.Compare(run[len(run)-1].Key, key) >= 0
	})
	if r == len(b.runs) {
		return position{r, 0}
	}
	run := b.runs[r]
	return position{r, sort.Search(len(run), func(i int) bool { return bytes.Compare(run[i].Key, key) >= 0 })}
}

// entry returns the write at p, nil past the end.
func (b *bucketWrites) entry(p position) *Write {
	if p.run >= len(b.runs) {
		return nil
	}
	return &b.runs[p.run][p.i]
}

func (b *bucketWrites) next(p position) position {
	if p.i++; p.i == len(b.runs[p.run]) {
		return position{p.run + 1, 0}
	}
	return p
}

// place returns the position of the first write at or after key. Writes often come in key order: then it is the one
// after the last that was added.
func (b *bucketWrites) place(key []byte) position {
	if len(b.runs) > 0 && b.lastGen == b.gen && bytes.Compare(b.entry(b.last).Key, key) < 0 {
		p := b.next(b.last)
		if next := b.entry(p); next == nil || bytes.Compare(key, next.Key) <= 0 {
			return p
		}
	}
	return b.search(key)
}

// put adds a write, in place of another one of its key.
func (b *bucketWrites) put(w Write) {
	p := b.place(w.Key)
	if old := b.entry(p); old != nil && bytes.Equal(old.Key, w.Key) {
		*old = w
		return
	}
	b.insert(p, w)
}

// putAll is put for writes in key order. It moves those behind a row of new ones once.
func (b *bucketWrites) putAll(list []Write) {
	for len(list) > 0 {
		p, n := b.place(list[0].Key), len(list)
		if next := b.entry(p); next != nil {
			if bytes.Equal(next.Key, list[0].Key) {
				*next, list = list[0], list[1:]
				continue
			}
			n = sort.Search(n, func(i int) bool { return bytes.Compare(list[i].Key, next.Key) >= 0 })
		}
		n = b.insert(p, list[:n]...)
		list = list[n:]
	}
}

// insert adds new writes before the one at p, one at least, as many as its run has room for. It returns their number.
func (b *bucketWrites) insert(p position, list ...Write) (n int) {
	b.gen++
	if p.run == len(b.runs) {
		if p.run == 0 {
			b.runs = append(b.runs, b.room)
			b.room = nil
		} else {
			p.run--
			p.i = len(b.runs[p.run])
		}
	}
	n = min(len(list), max(1, maxRun-len(b.runs[p.run])))
	run := slices.Insert(b.runs[p.run], p.i, list[:n]...)
	b.runs[p.run] = run
	b.last, b.lastGen = position{p.run, p.i + n - 1}, b.gen
	if len(run) <= maxRun {
		return n
	}
	// Ascending keys, the usual order, fill their runs; others are split in halves.
	at := len(run) / 2
	if p.run == len(b.runs)-1 && p.i == len(run)-1 {
		at = len(run) - 1
	}
	tail := append(make([]Write, 0, maxRun), run[at:]...)
	clear(run[at:])
	b.runs[p.run] = run[:at]
	b.runs = slices.Insert(b.runs, p.run+1, tail)
	if p.i >= at {
		b.last = position{p.run + 1, p.i - at}
	}
	return n
}
