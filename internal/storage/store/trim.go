package store

import (
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// touchSeek is how many pages of 4 KiB a search in bbolt is reckoned to make resident, and touchPage how many a page that is read does:
// the kernel maps up to 64 KiB around a fault.
const (
	touchSeek = 16
	touchPage = 4
)

// trimEvery is how many touched pages are between two looks at the memory, per DB: 16 MiB.
const trimEvery = 4096

// trimmer keeps the resident part of the mapping small.
//
// Transactions count the pages that they may have made resident. The one with which enough have come together asks the
// kernel how much of this process is file-backed; if that is too much, it unmaps the pages of this file. They remain in
// the page cache: the next access costs a minor fault, and reads that run meanwhile see no difference.
//
// That takes some microseconds for hundreds of reads, and a millisecond or two for thousands. It is not left to another
// goroutine, because that one would come too late when all processors are busy reading.
type trimmer struct {
	limit   int64 // bytes, negative for none
	touched atomic.Int64
	busy    sync.Mutex
	trims   atomic.Int64 // how often pages were returned
}

func newTrimmer(limit int64) *trimmer {
	if limit == 0 {
		limit = DefaultMaxMapped
	}
	return &trimmer{limit: limit}
}

// add counts n pages that tx has touched. While tx is open the mapping cannot move, and covers its Size at least.
func (t *trimmer) add(n int, tx *bolt.Tx) {
	if !canTrim || t.limit < 0 || t.touched.Add(int64(n)) < trimEvery || !t.busy.TryLock() {
		return
	}
	defer t.busy.Unlock()
	t.touched.Store(0)
	if resident, err := residentFile(); err != nil || resident <= t.limit {
		return
	}
	if releaseMapped(tx.DB().Info().Data, tx.Size()) == nil {
		t.trims.Add(1)
	}
}

// touch counts n pages that were read through the mapping. Long transactions pass the count on while they run.
func (tx *Tx) touch(n int) {
	if tx.touched += n * touchPage; tx.touched >= trimEvery {
		tx.flushTouched()
	}
}

// flushTouched must be called before the transaction of bbolt ends.
func (tx *Tx) flushTouched() {
	tx.db.trim.add(tx.touched, tx.bolt)
	tx.touched = 0
}
