package longpoll

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
)

// feedSize is the number of changes that a Feed keeps, of all keys together.
const feedSize = 16 << 10

// Feed keeps the latest changes of many resources in memory, by position. It drops old changes, and all of them when
// the process ends: a reader with an unknown position has to read everything. It keeps nothing until the first reader
// asks.
type Feed struct {
	board *Board
	epoch string // of this process, which makes positions of another process unknown

	mu      sync.Mutex
	on      bool
	next    uint64 // position of the next change; the first is 1
	entries []feedEntry
}

type feedEntry struct{ key, name string }

// NewFeed returns a feed whose readers wait on board.
func NewFeed(board *Board) *Feed {
	return &Feed{board: board, epoch: rand.Text()[:10], next: 1}
}

// Add records that name has changed within key, and wakes the waiters of the key; "" is any number of names, after
// which readers have to read everything. It never blocks.
func (f *Feed) Add(key, name string) {
	f.mu.Lock()
	if f.on {
		e := feedEntry{key, name}
		if i := (f.next - 1) % feedSize; int(i) < len(f.entries) {
			f.entries[i] = e
		} else {
			f.entries = append(f.entries, e)
		}
		f.next++
	}
	f.mu.Unlock()
	f.board.Touch(key)
}

// Position returns the position of the latest change.
func (f *Feed) Position() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = true
	return f.position(f.next - 1)
}

func (f *Feed) position(n uint64) string { return f.epoch + "-" + strconv.FormatUint(n, 36) }

// After returns up to most names that changed within key after a position, each once, in the order of their first
// change, and the position after them. known is false if the position is unknown, or more than that changed; the
// returned position is then that of the latest change.
func (f *Feed) After(position, key string, most int, wanted func(name string) bool) (names []string, at string,
	known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = true
	epoch, text, _ := strings.Cut(position, "-")
	n, err := strconv.ParseUint(text, 36, 64)
	if epoch != f.epoch || err != nil || n >= f.next || n+uint64(len(f.entries)) < f.next-1 {
		return nil, f.position(f.next - 1), false
	}
	seen := make(map[string]bool)
	for n++; n < f.next; n++ {
		e := &f.entries[(n-1)%feedSize]
		if e.key == key && e.name == "" {
			return nil, f.position(f.next - 1), false
		}
		if e.key != key || seen[e.name] || !wanted(e.name) {
			continue
		}
		if len(names) == most {
			break
		}
		seen[e.name] = true
		names = append(names, e.name)
	}
	return names, f.position(n - 1), true
}
