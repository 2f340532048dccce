//go:build linux

package store

import (
	"encoding/binary"
	"path/filepath"
	"testing"
)

// fill writes n values of 1 KiB.
func fill(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		err := db.Update(func(tx *Tx) error {
			for j := i; j < min(i+1000, n); j++ {
				tx.Put("a", binary.BigEndian.AppendUint64(nil, uint64(j)), make([]byte, 1024))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readAll walks the whole bucket, a thousand keys to a transaction.
func readAll(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		err := db.View(func(tx *Tx) error {
			c := tx.Cursor("a")
			k, v := c.Seek(binary.BigEndian.AppendUint64(nil, uint64(i)))
			for range 1000 {
				if len(v) != 1024 {
					t.Errorf("key %x has %d bytes", k, len(v))
				}
				k, v = c.Next()
				if k == nil {
					break
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrimmerBoundsResidentMemory(t *testing.T) {
	const n, limit, slack = 100_000, 40 << 20, 40 << 20
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{MaxMapped: limit, Relaxed: true})
	fill(t, db, n)
	for range 3 {
		readAll(t, db, n)
		got, err := residentFile()
		if err != nil {
			t.Fatal(err)
		}
		if got > limit+slack {
			t.Errorf("%d MiB of the file are resident, want at most %d", got>>20, (limit+slack)>>20)
		}
	}
	if db.trim.trims.Load() == 0 {
		t.Error("the trimmer did not run: the test shows nothing")
	}
}

// BenchmarkScan shows what trimming costs: a walk over 100 MB with and without.
func BenchmarkScan(b *testing.B) {
	const n = 100_000
	for name, limit := range map[string]int64{"trimmed": 40 << 20, "untrimmed": -1} {
		b.Run(name, func(b *testing.B) {
			db := openAt(b, filepath.Join(b.TempDir(), "db"), Options{MaxMapped: limit, Relaxed: true})
			fill(b, db, n)
			b.ResetTimer()
			for range b.N {
				readAll(b, db, n)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

// BenchmarkGet reads one random key of 100,000 per transaction.
func BenchmarkGet(b *testing.B) {
	const n = 100_000
	for name, limit := range map[string]int64{"trimmed": 40 << 20, "untrimmed": -1} {
		b.Run(name, func(b *testing.B) {
			db := openAt(b, filepath.Join(b.TempDir(), "db"), Options{MaxMapped: limit, Relaxed: true})
			fill(b, db, n)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				key := binary.BigEndian.AppendUint64(nil, uint64(i*7919%n))
				_ = db.View(func(tx *Tx) error {
					if v := tx.Get("a", key); len(v) != 1024 || v[5] != 0 {
						b.Error("wrong value")
					}
					return nil
				})
			}
		})
	}
}
