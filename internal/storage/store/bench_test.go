package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
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

// BenchmarkReplication compares a store of a single machine with a node of a cluster of three servers in this process,
// for one caller and for sixteen.
func BenchmarkReplication(b *testing.B) {
	for _, servers := range []int{0, 3} {
		for _, callers := range []int{1, 16} {
			o := Options{}
			if servers > 0 {
				o.Log = openLog(b, natscluster.Start(b, servers), 0, "bench")
			}
			db := openAt(b, filepath.Join(b.TempDir(), "db"), o)
			run := func(name string, op func(i int64) error) {
				b.Run(fmt.Sprintf("servers=%d/callers=%d/%s", servers, callers, name), func(b *testing.B) {
					var next atomic.Int64
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								if err := op(i); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
				})
			}
			value := make([]byte, 512)
			run("update", func(i int64) error {
				return db.Update(func(tx *Tx) error { tx.Put("a", fmt.Appendf(nil, "%09d", i), value); return nil })
			})
			run("view", func(i int64) error {
				return db.View(func(tx *Tx) error { tx.Get("a", fmt.Appendf(nil, "%09d", i)); return nil })
			})
		}
	}
}
