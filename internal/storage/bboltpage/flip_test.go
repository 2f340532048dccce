package bboltpage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestFlippedBits flips single bits of files, one at a time: in every byte of the pages that lead to the leaves, and at
// random elsewhere. The file must be refused, or reads must fail, or everything must read as it was written.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	const random = 60
	for _, s := range []shape{
		{"inline", 5, 3, 20, 3},
		{"one leaf", 40, 20, 100, 2},
		{"branches", 900, 60, 2_000, 2},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(11, uint64(s.keys)))
			path := filepath.Join(t.TempDir(), "db")
			db := openBolt(t, path)
			for range 4 {
				change(t, db, rng, s, s.puts, s.puts/2)
			}
			want := contents(t, db, s)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			clean, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			st, err := CheckStructure(bytes.NewReader(clean), int64(len(clean)))
			if err != nil {
				t.Fatal(err)
			}
			clean = clean[:st.Pages*uint64(st.PageSize)]
			outcomes := map[string]int{}
			for _, at := range places(clean, st.PageSize, rng, random) {
				spoilt := bytes.Clone(clean)
				spoilt[at] ^= 1 << rng.IntN(8)
				outcome := examine(t, spoilt, s, want)
				if outcomes[outcome]++; outcome == "wrong" {
					t.Errorf("the flip at offset %d (page %d, byte %d) was not noticed", at, at/st.PageSize, at%st.PageSize)
				}
			}
			t.Logf("%d pages: %v", st.Pages, outcomes)
			if outcomes["refused"] == 0 || outcomes["error"] == 0 {
				t.Error("not every kind of outcome occurred: the test shows nothing")
			}
		})
	}
}

// places are offsets to spoil: the headers and elements of all pages that are not leaves, the headers of leaves, and
// some others.
func places(file []byte, pageSize int, rng *rand.Rand, random int) (offsets []int) {
	for at := 0; at < len(file); at += pageSize {
		p := Page(file[at : at+pageSize])
		n := headerSize
		if p.kind() == kindBranch || p.kind() == kindMeta || p.kind() == kindFreelist {
			n = 200
		}
		for i := range n {
			offsets = append(offsets, at+i)
		}
	}
	rng.Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
	offsets = offsets[:min(len(offsets), 2*random)]
	for range random {
		offsets = append(offsets, rng.IntN(len(file)))
	}
	return offsets
}

func contents(t *testing.T, db *bolt.DB, s shape) []map[string]string {
	var all []map[string]string
	err := db.View(func(tx *bolt.Tx) error {
		for i := range s.buckets {
			m := map[string]string{}
			err := tx.Bucket(bucketName(i)).ForEach(func(k, v []byte) error { m[string(k)] = string(v); return nil })
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// examine reads a file in every way and says what came of it.
func examine(t *testing.T, file []byte, s shape, want []map[string]string) string {
	t.Helper()
	st, err := CheckStructure(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(st.Buckets) != s.buckets {
		return "refused"
	}
	if st.Alone {
		// The file reads as it was before its last transaction. Package store notices by what that one wrote.
		return "one meta page"
	}
	dir, err := os.MkdirTemp("/dev/shm", "bboltpage")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return "refused"
	}
	defer db.Close()
	outcome := "intact"
	_ = db.View(func(tx *bolt.Tx) error {
		for i := range s.buckets {
			if got := examineBucket(tx, NewReader(bytes.NewReader(file), db.Info().PageSize), i, want[i]); got != "intact" {
				if outcome != "wrong" {
					outcome = got
				}
			}
		}
		return nil
	})
	return outcome
}

func examineBucket(tx *bolt.Tx, r *Reader, bucket int, want map[string]string) string {
	outcome := "intact"
	for _, direct := range []bool{false, true} {
		s := r.Snapshot(tx, SnapshotOptions{Direct: direct})
		defer s.Release()
		tree, ok, err := s.Bucket(bucketName(bucket), nil)
		if err != nil || !ok {
			return "error" // package store knows the names of a file's buckets
		}
		for k, v := range want {
			got, err := s.Get(tree, []byte(k), verifySum)
			if err != nil {
				outcome = "error"
			} else if string(got) != v {
				return "wrong"
			}
			if got, err := s.Get(tree, []byte(k+"!"), verifySum); err == nil && got != nil {
				return "wrong"
			}
		}
		c := s.Scan(tree, verifySum)
		n := 0
		for err = c.Seek(nil); err == nil; err = c.Next() {
			k, v := c.Pair()
			if k == nil {
				break
			}
			if n++; want[string(k)] != string(v) {
				return "wrong"
			}
		}
		if err != nil {
			outcome = "error"
		} else if n != len(want) {
			return "wrong"
		}
		// From each key on: the first must be it, and not a later one.
		for k := range want {
			c := s.Cursor(tree, verifySum)
			if err := c.Seek([]byte(k)); err != nil {
				outcome = "error"
			} else if got, _ := c.Pair(); string(got) != k {
				return "wrong"
			}
		}
	}
	return outcome
}

// TestBranchKeyThatBecameLower makes a branch lead a key of one leaf to the next one, where it is absent.
func TestBranchKeyThatBecameLower(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openBolt(t, path)
	err := db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucketName(0))
		for i := 0; i < 400 && err == nil; i++ {
			k := []byte{'k', byte(i >> 8), byte(i)}
			err = b.Put(k, sealed(bytes.Clone(k), make([]byte, 40)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadMeta(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	lowered := 0
	var last []byte // of the leaf before
	for id := uint64(2); id < m.Pages; id++ {
		p := Page(file[id*uint64(m.PageSize):][:m.PageSize])
		if p.kind() != kindBranch {
			continue
		}
		for i := 1; i < p.count(); i++ {
			key, _, _ := p.child(i)
			last = bytes.Clone(key)
			last[2]-- // the highest key of the leaf before
			key[2]--
			lowered++
		}
	}
	if lowered == 0 {
		t.Fatal("the tree has no branch")
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db = openBolt(t, path)
	err = db.View(func(tx *bolt.Tx) error {
		s := NewReader(nil, db.Info().PageSize).Snapshot(tx, SnapshotOptions{})
		defer s.Release()
		tree, _, err := s.Bucket(bucketName(0), nil)
		if err != nil {
			return err
		}
		if v, err := s.Get(tree, last, verifySum); v == nil && err == nil {
			t.Errorf("the key %x passes for absent", last)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
