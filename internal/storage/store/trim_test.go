//go:build linux

package store

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/test/check"
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

// BenchmarkLarge reads a file of several hundred MB: by way of its mapping, bounded or not, and directly.
func BenchmarkLarge(b *testing.B) {
	const n, page = 300_000, 1000
	for _, how := range []string{"direct", "trimmed", "unbounded"} {
		o := Options{MaxMapped: 40 << 20, Relaxed: true}
		if how == "unbounded" {
			o.MaxMapped = -1
		}
		var db *DB
		start := func(b *testing.B) {
			if db == nil {
				db = openAt(b, filepath.Join(b.TempDir(), "db"), o)
				fill(b, db, n)
				if how == "trimmed" {
					db.directAbove = math.MaxInt64
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
		}
		b.Run(how+"/get", func(b *testing.B) {
			start(b)
			for b.Loop() {
				key := binary.BigEndian.AppendUint64(nil, rand.Uint64N(n))
				_ = db.View(func(tx *Tx) error {
					if v := tx.Get("a", key); len(v) != 1024 || v[5] != 0 {
						b.Error("wrong value")
					}
					return nil
				})
			}
		})
		db = nil
		b.Run(how+"/scan", func(b *testing.B) {
			start(b)
			var sum byte
			for b.Loop() {
				key := binary.BigEndian.AppendUint64(nil, rand.Uint64N(n-page))
				_ = db.View(func(tx *Tx) error {
					c := tx.Scan("a")
					k, v := c.Seek(key)
					for i := 0; i < page && k != nil; i++ {
						for j := 0; j < len(v); j += 64 {
							sum += v[j]
						}
						k, v = c.Next()
					}
					return nil
				})
			}
			if sum != 0 {
				b.Error("wrong value")
			}
		})
		db = nil
	}
}

// countedReads counts the system calls of a Reader.
type countedReads struct {
	f *os.File
	n atomic.Int64
}

func (c *countedReads) ReadAt(p []byte, at int64) (int, error) {
	c.n.Add(1)
	return c.f.ReadAt(p, at)
}

// BenchmarkLargePages reads pages of 1,000 from a file that transactions of 100 have written, each at a place of its
// own, and counts the system calls of a page.
func BenchmarkLargePages(b *testing.B) {
	const n, page, row = 100_000, 1000, 100
	db := openAt(b, filepath.Join(b.TempDir(), "db"), Options{MaxMapped: 40 << 20, Relaxed: true})
	value := make([]byte, 1024)
	for _, r := range rand.New(rand.NewPCG(1, 2)).Perm(n / row) {
		err := db.Update(func(tx *Tx) error {
			for i := range row {
				tx.Put("a", binary.BigEndian.AppendUint64(nil, uint64(r*row+i)), value)
			}
			return nil
		})
		check.OK(b, err)
	}
	reads := &countedReads{f: db.pagesFile}
	db.pages = bboltpage.NewReader(reads, db.bolt.Info().PageSize)
	for b.Loop() {
		key := binary.BigEndian.AppendUint64(nil, rand.Uint64N(n-page))
		err := db.View(func(tx *Tx) error {
			c := tx.Scan("a")
			k, _ := c.Seek(key)
			for i := 0; i < page && k != nil; i++ {
				k, _ = c.Next()
			}
			return nil
		})
		check.OK(b, err)
	}
	b.ReportMetric(float64(reads.n.Load())/float64(b.N), "reads/op")
}
