package store

import (
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// How many pages of 4 KiB a step is reckoned to make resident. The kernel maps up to 64 KiB around a fault.
const (
	touchSeek = 16
	touchNext = 1
)

// trimEvery is how many touched pages are between two looks at the memory, per DB: 16 MiB.
const trimEvery = 4096

// trimmer keeps the resident part of the mapping small.
//
// Transactions count the pages that they may have made resident. When enough have come together, a goroutine asks the
// kernel how much of this process is file-backed; if that is too much, it unmaps the pages of this file. They remain in
// the page cache: the next access costs a minor fault, and reads that run meanwhile see no difference.
type trimmer struct {
	limit   int64
	touched atomic.Int64
	kick    chan struct{}
	quit    chan struct{}
	done    sync.WaitGroup
	trims   atomic.Int64 // how often pages were returned
}

func startTrimmer(b *bolt.DB, limit int64) *trimmer {
	if limit == 0 {
		limit = DefaultMaxMapped
	}
	t := &trimmer{limit: limit, kick: make(chan struct{}, 1), quit: make(chan struct{})}
	if limit > 0 && canTrim {
		t.done.Go(func() { t.loop(b) })
	}
	return t
}

func (t *trimmer) loop(b *bolt.DB) {
	for {
		select {
		case <-t.quit:
			return
		case <-t.kick:
		}
		if n, err := residentFile(); err != nil || n <= t.limit {
			continue
		}
		// Inside a transaction the mapping cannot move, and covers Size bytes at least.
		err := b.View(func(tx *bolt.Tx) error { return releaseMapped(b.Info().Data, tx.Size()) })
		if err == nil {
			t.trims.Add(1)
		}
	}
}

func (t *trimmer) stop() {
	close(t.quit)
	t.done.Wait()
}

func (t *trimmer) add(n int) {
	if n == 0 || t.touched.Add(int64(n)) < trimEvery {
		return
	}
	t.touched.Store(0)
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// touch counts n pages. Long transactions pass the count on while they run.
func (tx *Tx) touch(n int) {
	if tx.touched += n; tx.touched >= trimEvery {
		tx.flushTouched()
	}
}

func (tx *Tx) flushTouched() {
	tx.db.trim.add(tx.touched)
	tx.touched = 0
}
