package store

import (
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// touchSeek is the estimated number of pages of 4 KiB that a search in bbolt makes resident, and touchPage the number
// for one page that is read: the kernel maps up to 64 KiB around a fault.
const (
	touchSeek = 16
	touchPage = 4
)

// trimEvery is the number of touched pages between two checks of the memory, per DB: 16 MiB.
const trimEvery = 4096

// trimmer keeps the resident part of the mapping small.
//
// Transactions count the pages that they may have made resident. When the count is high enough, the transaction asks
// the kernel how much memory of this process is file-backed. If it is too much, it releases the pages of this file.
// They remain in the page cache: the next access costs a minor fault, and concurrent reads see no difference.
//
// That takes some microseconds for hundreds of reads, and a millisecond or two for thousands. It does not run in a
// separate goroutine, because that would run too late when all processors are busy reading.
type trimmer struct {
	limit   int64 // bytes; negative means no limit
	touched atomic.Int64
	busy    sync.Mutex
	trims   atomic.Int64 // number of trims
}

func newTrimmer(limit int64) *trimmer {
	if limit == 0 {
		limit = DefaultMaxMapped
	}
	return &trimmer{limit: limit}
}

// add counts n pages that tx has touched. While tx is open the mapping cannot move, and covers at least tx's size.
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
