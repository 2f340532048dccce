package bboltpage

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// verified walks the first bucket and returns the number of pairs and how many of them verify was called with. verify fails after some calls.
func verified(tx *bolt.Tx, f File, o SnapshotOptions, failAfter int) (pairs, calls int, err error) {
	s := f.Snapshot(o)
	defer s.Release()
	tree, _, err := s.Bucket(bucketName(0), nil)
	if err != nil {
		return 0, 0, err
	}
	c := s.Scan(tree, func(k, v []byte) error {
		if calls++; calls > failAfter {
			return errSum
		}
		return verifySum(k, v)
	})
	for err = c.Seek(nil); err == nil; err = c.Next() {
		k, v := c.Pair()
		if k == nil {
			return pairs, calls, nil
		}
		if err := verifySum(k, v); err != nil {
			return 0, 0, err
		}
		pairs++
	}
	return pairs, calls, err
}

// Leaves that a cursor has checked to the end are not checked again while the file does not change, and others are.
func TestCheckedLeaves(t *testing.T) {
	t.Parallel()
	db := openBolt(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	sh := shape{"", 2000, 1000, 5_000, 1}
	change(t, db, rng, sh, 1000, 0)
	r := NewReader(nil, db.Info().PageSize)
	const never = 1 << 30
	view := func(check func(tx *bolt.Tx, f File)) {
		t.Helper()
		if err := db.View(func(tx *bolt.Tx) error { check(tx, r.File(tx)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	remember := SnapshotOptions{Remember: true}
	view(func(tx *bolt.Tx, f File) {
		if n, calls, err := verified(tx, f, SnapshotOptions{}, never); err != nil || n < 500 || calls != n {
			t.Fatalf("without remembering, %d of %d pairs verified: %v", calls, n, err)
		}
		// A leaf with a pair that is damaged is not remembered, nor those behind it.
		n, calls, err := verified(tx, f, remember, 100)
		if !errors.Is(err, errSum) || n != 100 {
			t.Fatalf("%d pairs until the damaged one, and %v", n, err)
		}
		all, calls, err := verified(tx, f, remember, never)
		if err != nil || calls <= all-100 || calls > all {
			t.Fatalf("after 100 pairs %d of %d verified: %v", calls, all, err)
		}
		if n, calls, err := verified(tx, f, remember, 0); err != nil || n != all {
			t.Fatalf("of checked leaves %d of %d pairs read, %d verified: %v", n, all, calls, err)
		}
		if n, calls, err := verified(tx, f, SnapshotOptions{}, never); err != nil || calls != n {
			t.Fatalf("without remembering, %d of %d pairs verified: %v", calls, n, err)
		}
		// A minute later nothing is remembered.
		f.checked.set.Load().since = time.Now().Add(-checkedFor)
		if n, calls, err := verified(tx, f, remember, never); err != nil || calls != n {
			t.Fatalf("a minute later %d of %d pairs verified: %v", calls, n, err)
		}
	})
	change(t, db, rng, sh, 1, 0)
	view(func(tx *bolt.Tx, f File) {
		if n, calls, err := verified(tx, f, remember, never); err != nil || calls != n {
			t.Fatalf("of the changed file %d of %d pairs verified: %v", calls, n, err)
		}
	})
}

// A position inside a leaf says nothing about the pairs before it.
func TestLeafCheckedFromTheMiddle(t *testing.T) {
	t.Parallel()
	db := openBolt(t, filepath.Join(t.TempDir(), "db"))
	defer db.Close()
	change(t, db, rand.New(rand.NewPCG(1, 2)), shape{"", 40, 10, 100, 1}, 20, 0)
	r := NewReader(nil, db.Info().PageSize)
	if err := db.View(func(tx *bolt.Tx) error {
		f := r.File(tx)
		s := f.Snapshot(SnapshotOptions{Remember: true})
		defer s.Release()
		tree, _, err := s.Bucket(bucketName(0), nil)
		if err != nil {
			return err
		}
		var keys [][]byte
		c := (&Snapshot{File: f}).Cursor(tree, verifySum)
		for err = c.Seek(nil); err == nil && c.key != nil; err = c.Next() {
			keys = append(keys, c.key)
		}
		if err != nil || len(keys) < 10 {
			t.Fatalf("%d keys: %v", len(keys), err)
		}
		c = s.Cursor(tree, verifySum)
		leaf := uint64(0)
		for err = c.Seek(keys[1]); err == nil && c.key != nil; err = c.Next() {
			if leaf == 0 {
				leaf = c.leafID
			}
		}
		if err != nil || c.checked.has(leaf) {
			t.Errorf("leaf %d counts as checked after a walk from its second key: %v", leaf, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
