package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkUpdate commits 1 KiB values under random keys, one per transaction.
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 8, 32, 256} {
		for _, mode := range []string{"durable", "relaxed"} {
			b.Run(fmt.Sprintf("%s/writers=%d", mode, writers), func(b *testing.B) {
				db, err := Open(filepath.Join(b.TempDir(), "db"), Options{Buckets: []Bucket{"a"}, Relaxed: mode == "relaxed"})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							key := binary.BigEndian.AppendUint64([]byte("partition\x00"), rand.Uint64())
							value := make([]byte, 1024)
							err := db.Update(func(tx *Tx) error {
								if tx.Get("a", key) != nil {
									return nil
								}
								tx.Put("a", key, value)
								return nil
							})
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}
