package longpoll

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
)

// feedSize is how many changes a Feed remembers, of all keys together.
const feedSize = 16 << 10

// Feed remembers the latest changes of many things in memory, by position. It forgets what is old and, with its process, everything:
// a position that it does not know means that the asker has to look at everything. Until somebody asks, it remembers nothing.
type Feed struct {
	board *Board
	epoch string // of this process, so that positions of another one are not mistaken for ours

	mu      sync.Mutex
	on      bool
	next    uint64 // position of the next change; the first is 1
	entries []feedEntry
}

type feedEntry struct{ key, name string }

// NewFeed makes a feed whose waiters wait on board.
func NewFeed(board *Board) *Feed {
	return &Feed{board: board, epoch: rand.Text()[:10], next: 1}
}

// Add notes that name has changed within key, and wakes who waits for the key. It never blocks.
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

// After returns up to most names that changed within key after a position, each once, in order of their first change, and the
// position that this brings one to. known is false if the position is not remembered; the position is then that of the latest change.
func (f *Feed) After(position, key string, most int, wanted func(name string) bool) (names []string, at string, known bool) {
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
