package bboltpage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestRelease fails when the module uses a bbolt that this package was not compared with. Before KnownRelease is
// changed, compare the page and meta layouts of the new release (its internal/common) with page.go and meta.go, and run
// this package's tests.
func TestRelease(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*go\.etcd\.io/bbolt (\S+)`).FindSubmatch(mod)
	if m == nil || string(m[1]) != KnownRelease {
		t.Errorf("go.mod has bbolt %s, and the package knows %s", m[1], KnownRelease)
	}
}

// shape describes how the trees of a test look.
type shape struct {
	name              string
	keys, puts, large int
	buckets           int
}

var shapes = []shape{
	{"inline", 5, 3, 20, 1},
	{"one leaf", 40, 6, 100, 1},
	{"many buckets", 50, 20, 50, 150},
	{"small", 200, 100, 5_000, 3},
	{"overflowing leaves", 500, 300, 60_000, 2},
	{"leaves larger than a read", 200, 100, 400_000, 1},
	{"three levels", 20_000, 8_000, 2_000, 1},
}

// randomPair makes keys that are prefixes of each other, some of them long, and values of which some need pages of
// their own.
func randomPair(rng *rand.Rand, s shape) (k, v []byte) {
	k = fmt.Appendf(nil, "%x", rng.IntN(s.keys))
	if rng.IntN(50) == 0 {
		k = append(k, bytes.Repeat([]byte{'x'}, rng.IntN(6000))...)
	}
	n := rng.IntN(1500)
	if rng.IntN(20) == 0 {
		n = rng.IntN(s.large)
	}
	return k, sealed(k, bytes.Repeat([]byte{byte(rng.Uint32())}, min(n, s.large)))
}

var errSum = errors.New("checksum")

func sealed(k, v []byte) []byte {
	return fmt.Appendf(nil, "%s%08x", v, crc32.ChecksumIEEE(append(k, v...)))
}

// verifySum is a Verify for sealed values.
func verifySum(k, v []byte) error {
	n := len(v) - 8
	if n < 0 || !bytes.Equal(v, sealed(bytes.Clone(k), v[:n])) {
		return errSum
	}
	return nil
}

func bucketName(i int) []byte { return fmt.Appendf(nil, "bucket %03d", i) }

// change puts and deletes at random.
func change(t *testing.T, db *bolt.DB, rng *rand.Rand, s shape, puts, deletes int) {
	t.Helper()
	err := db.Update(func(tx *bolt.Tx) error {
		for i := range s.buckets {
			b, err := tx.CreateBucketIfNotExists(bucketName(i))
			if err != nil {
				return err
			}
			b.FillPercent = 0.3 + 0.6*rng.Float64()
			for range puts {
				k, v := randomPair(rng, s)
				if err := b.Put(k, v); err != nil {
					return err
				}
			}
			for range deletes {
				k, _ := randomPair(rng, s)
				if rng.IntN(3) == 0 {
					k, _ = b.Cursor().Seek(k) // one that exists
				}
				if k == nil {
					continue
				}
				if err := b.Delete(bytes.Clone(k)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func openBolt(t testing.TB, path string) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, FreelistType: bolt.FreelistMapType, NoGrowSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestAgainstBolt builds trees of every shape at random, and compares every key, keys that do not exist, and walks from
// anywhere with bbolt's own cursor, while the trees grow and shrink. It also shows that files of bbolt have the
// structure that this package relies on.
func TestAgainstBolt(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/direct=%v", s.name, direct), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(7, uint64(s.keys)))
				path := filepath.Join(t.TempDir(), "db")
				db := openBolt(t, path)
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				r := NewReader(f, db.Info().PageSize)
				depths := make([]atomic.Int32, s.buckets)
				for round := range 4 {
					change(t, db, rng, s, s.puts, s.puts*round/2)
					err := db.View(func(tx *bolt.Tx) error {
						if _, err := CheckStructure(f, tx.Size()); err != nil {
							return err
						}
						for i := range min(s.buckets, 3) {
							if err := compare(tx, r, direct, i, &depths[i], rng, s); err != nil {
								return fmt.Errorf("round %d, bucket %d: %w", round, i, err)
							}
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func compare(tx *bolt.Tx, r *Reader, direct bool, bucket int, depth *atomic.Int32, rng *rand.Rand, sh shape) error {
	s := r.Snapshot(tx, SnapshotOptions{Direct: direct})
	defer s.Release()
	tree, ok, err := s.Bucket(bucketName(bucket), depth)
	if err != nil || !ok {
		return fmt.Errorf("bucket: %v, %w", ok, err)
	}
	if _, ok, err := s.Bucket([]byte("absent"), nil); ok || err != nil {
		return fmt.Errorf("a bucket that does not exist: %v, %w", ok, err)
	}
	b := tx.Bucket(bucketName(bucket))
	var keys [][]byte
	_ = b.ForEach(func(k, _ []byte) error { keys = append(keys, k); return nil })
	for i := 0; i < len(keys); i += 1 + len(keys)/300 {
		absent, _ := randomPair(rng, sh)
		for _, k := range [][]byte{keys[i], append(bytes.Clone(keys[i]), 0), keys[i][:len(keys[i])-1], absent} {
			if len(k) == 0 {
				continue
			}
			got, err := s.Get(tree, k, verifySum)
			if err != nil {
				return fmt.Errorf("get %.40q: %w", k, err)
			}
			if want := b.Get(k); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				return fmt.Errorf("get %.40q: %d bytes, want %d", k, len(got), len(want))
			}
			exists, err := s.CheckLeaf(tree, k, true, verifySum)
			if err != nil || exists != (b.Get(k) != nil) {
				return fmt.Errorf("check the leaf of %.40q: exists %v, %w", k, exists, err)
			}
		}
	}
	for n := range 20 {
		open := (*Snapshot).Cursor
		if n%2 == 0 {
			open = (*Snapshot).Scan
		}
		got, want := open(&s, tree, verifySum), b.Cursor()
		from, _ := randomPair(rng, sh)
		if n < 4 {
			from = nil
		}
		err := got.Seek(from)
		wk, wv := want.Seek(from)
		for {
			k, v := got.Pair()
			if err != nil || !bytes.Equal(k, wk) || !bytes.Equal(v, wv) || (k == nil) != (wk == nil) {
				return fmt.Errorf("cursor from %.40q: %.40q with %d bytes, %w; want %.40q with %d", from, k, len(v), err, wk,
					len(wv))
			}
			if k == nil {
				break
			}
			err = got.Next()
			wk, wv = want.Next()
		}
		if err := compareSpan(got, want, keys, rng); err != nil {
			return err
		}
	}
	return nil
}

// compareSpan walks a random span of a bucket with these keys.
func compareSpan(got *Cursor, want *bolt.Cursor, keys [][]byte, rng *rand.Rand) error {
	if len(keys) == 0 {
		return nil
	}
	bound := func() []byte {
		k := bytes.Clone(keys[rng.IntN(len(keys))])
		return append(k, make([]byte, rng.IntN(2))...) // a key, or one that does not exist
	}
	from, to := bound(), bound()
	err := got.SeekWithin(from, Span{From: from, To: to})
	for wk, wv := want.Seek(from); ; wk, wv = want.Next() {
		if bytes.Compare(wk, to) >= 0 {
			wk, wv = nil, nil
		}
		k, v := got.Pair()
		if err != nil || !bytes.Equal(k, wk) || !bytes.Equal(v, wv) || (k == nil) != (wk == nil) {
			return fmt.Errorf("from %.40q to %.40q: %.40q with %d bytes, %w; want %.40q with %d", from, to, k, len(v), err, wk,
				len(wv))
		}
		if k == nil {
			// It stays at the end.
			if err := got.Next(); err != nil || got.key != nil {
				return fmt.Errorf("from %.40q to %.40q: %.40q behind the end, %w", from, to, got.key, err)
			}
			return nil
		}
		err = got.Next()
	}
}

// TestStaleDepth begins with hints at the level of the leaves that are wrong in either direction.
func TestStaleDepth(t *testing.T) {
	t.Parallel()
	s := shapes[6]
	path := filepath.Join(t.TempDir(), "db")
	db := openBolt(t, path)
	rng := rand.New(rand.NewPCG(1, 2))
	change(t, db, rng, s, s.puts, 0)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(f, db.Info().PageSize)
	var level int32
	for _, hint := range check.Size([]int32{0, 1, 4, 20}, []int32{0, 1, 2, 3, 4, 9, 20}) {
		for _, direct := range []bool{false, true} {
			var depth atomic.Int32
			depth.Store(hint)
			if err := db.View(func(tx *bolt.Tx) error { return compare(tx, r, direct, 0, &depth, rng, s) }); err != nil {
				t.Errorf("hint %d, direct %v: %v", hint, direct, err)
			}
			if level == 0 {
				level = depth.Load()
			}
			if got := depth.Load(); got != level || got < 2 {
				t.Errorf("after hint %d the depth is %d, without one it was %d", hint, got, level)
			}
		}
	}
}

// TestReadsThatFail makes system calls fail: the error is that of the call, not damage.
func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	db := openBolt(t, filepath.Join(t.TempDir(), "db"))
	s := shapes[6]
	change(t, db, rand.New(rand.NewPCG(1, 3)), s, s.puts, 0)
	r := NewReader(failing{}, db.Info().PageSize)
	err := db.View(func(tx *bolt.Tx) error {
		s := r.Snapshot(tx, SnapshotOptions{Direct: true})
		defer s.Release()
		var depth atomic.Int32
		depth.Store(2)
		tree, _, err := s.Bucket(bucketName(0), &depth)
		if err != nil {
			return err
		}
		if _, err := s.Get(tree, []byte("5"), verifySum); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("get: %v", err)
		}
		if err := s.Scan(tree, verifySum).Seek(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("scan: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, os.ErrDeadlineExceeded }

// FuzzPage reads pages of any content.
func FuzzPage(f *testing.F) {
	f.Add(
		[]byte(
			"\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00kv"), []byte("k"))
	f.Fuzz(func(t *testing.T, content, key []byte) {
		if len(content) < headerSize {
			return // whole pages only are read
		}
		p := Page(content)
		p.is(1)
		p.pages()
		p.check(4096)
		i, ok := p.search(key)
		if !ok {
			return
		}
		p.child(i)
		if p.leaf() {
			p.pair(i)
		}
	})
}

// largestRead is a file of any size whose pages all have the same header. It keeps the length of the longest read.
type largestRead struct {
	header Page
	bytes  int
}

func (f *largestRead) ReadAt(b []byte, _ int64) (int, error) {
	f.bytes = max(f.bytes, len(b))
	clear(b)
	return copy(b, f.header) + len(b[min(len(b), len(f.header)):]), nil
}

// A header that names too many overflow pages must not make the check of a large file read, and allocate, all of it.
func TestOverflowPagesAreBounded(t *testing.T) {
	header := make(Page, headerSize)
	binary.NativeEndian.PutUint64(header[0:], 5)
	binary.NativeEndian.PutUint16(header[8:], kindLeaf)
	binary.NativeEndian.PutUint32(header[12:], 1<<20)
	f := &largestRead{header: header}
	c := &structure{f: f, m: Meta{PageSize: 4096, Pages: 1 << 24}}
	_, err := c.page(5)
	var damage *DamageError
	if !errors.As(err, &damage) || damage.Page != 5 {
		t.Errorf("the page is read with %v, want damage of page 5", err)
	}
	if f.bytes > maxNode {
		t.Errorf("%d bytes were read at once, want at most %d", f.bytes, maxNode)
	}
}

// TestAbsentAtTheEndOfALeaf looks for several keys between the last one of a leaf and the first one of the next leaf:
// the pairs on both sides are verified once.
func TestAbsentAtTheEndOfALeaf(t *testing.T) {
	t.Parallel()
	db := openBolt(t, filepath.Join(t.TempDir(), "db"))
	check.OK(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucketName(0))
		for i := 0; i < 400 && err == nil; i++ {
			k := []byte{'k', byte(i >> 8), byte(i)}
			err = b.Put(k, sealed(bytes.Clone(k), make([]byte, 40)))
		}
		return err
	}))
	check.OK(t, db.View(func(tx *bolt.Tx) error {
		s := NewReader(nil, db.Info().PageSize).Snapshot(tx, SnapshotOptions{})
		defer s.Release()
		tree, _, err := s.Bucket(bucketName(0), nil)
		check.OK(t, err)
		verified := 0
		verify := func(k, v []byte) error { verified++; return verifySum(k, v) }
		absent := func(after []byte, n byte) int {
			verified = 0
			v, err := s.Get(tree, append(bytes.Clone(after), n), verify)
			check.OK(t, err)
			if v != nil {
				t.Errorf("the key %x-%d has a value", after, n)
			}
			return verified
		}
		ends := 0
		for id := uint64(2); int64(id) < tx.Size()/int64(db.Info().PageSize); id++ {
			p, ok := s.mapped(id, 1)
			if !ok || !p.is(id) || !p.leaf() || p.count() < 2 {
				continue
			}
			last, _ := p.key(p.count() - 1)
			if binary.BigEndian.Uint16(last[1:]) == 399 {
				continue
			}
			ends++
			if n := absent(last, 0); n == 0 {
				t.Errorf("the pairs around the end of page %d were not verified", id)
			}
			if n := absent(last, 1); n != 0 {
				t.Errorf("%d pairs around the end of page %d were verified again", n, id)
			}
		}
		if ends < 2 {
			t.Errorf("%d leaves have a next one", ends)
		}
		return nil
	}))
}
