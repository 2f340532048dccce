package maintain

import (
	"bytes"
	"context"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Last access times, where they are tracked: when a blob was last read with Get Blob, or written as a whole, to the
// day. A read is noted in memory if the time in the record is more than a day old, and the background writes the noted
// times. So each blob is written once a day at most, however often it is read.
// https://learn.microsoft.com/azure/storage/blobs/lifecycle-management-overview#move-data-based-on-last-accessed-time

const (
	// accessGrain is the age of the time in a record from which a read updates it.
	accessGrain = record.Day
	// maxAccessed bounds the reads that are noted in memory; others are noted at a later read.
	maxAccessed = 100_000
	// accessBatch is the maximum number of records that one transaction changes.
	accessBatch = 500
)

// Accesses are reads that are not in the records yet.
type Accesses struct {
	mu   sync.Mutex
	keys map[string]ticks.Ticks // blob keys, and when they were read
}

// Note notes that the blob of a key was read.
func (a *Accesses) Note(key []byte, b *record.Blob, now ticks.Ticks) {
	if now-b.Accessed < accessGrain {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) < maxAccessed {
		if a.keys == nil {
			a.keys = map[string]ticks.Ticks{}
		}
		a.keys[string(key)] = now
	}
}

func (a *Accesses) take() map[string]ticks.Ticks {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := a.keys
	a.keys = nil
	return keys
}

// FlushAccesses writes the access times that were noted into the records.
func (s *Maintenance) FlushAccesses(ctx context.Context) error {
	keys := s.Accesses.take()
	batch := make(map[string]ticks.Ticks, min(len(keys), accessBatch))
	for k, at := range keys {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		batch[k] = at
		// keys has what is not in a batch yet, so that an empty map means the last batch.
		delete(keys, k)
		if len(batch) < accessBatch && len(keys) > 0 {
			continue
		}
		err := s.node.DB.Update(func(tx *store.Tx) error {
			var b record.Blob
			for k, at := range batch {
				v := tx.Get(record.BlobsBucket, []byte(k))
				// The blob was deleted since it was read.
				if v == nil {
					continue
				}
				if err := record.DecodeBlob(bytes.Clone(v), &b); err != nil {
					return err
				}
				// A write since then is an access as well, and another node may have noted a later read.
				if b.Accessed < at {
					b.Accessed = at
					tx.Put(record.BlobsBucket, []byte(k), b.Encode())
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		clear(batch)
	}
	return nil
}
