package bboltpage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestDamageBesideASpan damages the pairs around the keys of one scope, and pairs of the scope so that they stand among
// the keys of others.
func TestDamageBesideASpan(t *testing.T) {
	t.Parallel()
	// Keys begin with the number of a scope. A scope's number with one bit inverted is that of another, in which the key
	// still is in order.
	key := func(scope byte, name string) []byte { return append([]byte{0, 0, 0, scope}, name...) }
	const before, walked, after = 0x10, 0x12, 0x16
	first, last := map[byte]string{before: "a000", walked: "m000", after: "z000"}, map[byte]string{}
	path := filepath.Join(t.TempDir(), "db")
	db := openBolt(t, path)
	const n = 40 // several leaves
	err := db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucketName(0))
		for scope, name := range first {
			for i := 0; i < n && err == nil; i++ {
				last[scope] = fmt.Sprintf("%c%03d", name[0], i)
				k := key(scope, last[scope])
				err = b.Put(k, sealed(bytes.Clone(k), []byte(valueOf(k)+strings.Repeat(".", 400))))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clean, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const inKey, inValue = 3, 6
	for _, c := range []struct {
		name   string
		key    []byte
		at     int // byte of the key, or of the value
		bit    byte
		failed []byte // scopes whose walk fails
	}{
		{"nothing", nil, 0, 0, nil},
		{"the value before", key(before, last[before]), inValue, 1, []byte{before}},
		{"the value behind", key(after, first[after]), inValue, 1, []byte{after}},
		{"the first value", key(walked, first[walked]), inValue, 1, []byte{walked}},
		{"the last value", key(walked, last[walked]), inValue, 1, []byte{walked}},
		{"the first key, now in the scope before", key(walked, first[walked]), inKey, 2, []byte{before, walked}},
		{"the last key, now in the scope behind", key(walked, last[walked]), inKey, 4, []byte{walked, after}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoilt := bytes.Clone(clean)
			if c.key != nil {
				what := c.key
				if c.at == inValue {
					what = []byte(valueOf(c.key))
				}
				found := 0
				for at := 0; ; at++ {
					i := bytes.Index(spoilt[at:], what)
					if i < 0 {
						break
					}
					at += i
					// In a branch too, or the leaf could not be reached.
					spoilt[at+c.at] ^= c.bit
					found++
				}
				if found == 0 {
					t.Fatal("the key is not in the file")
				}
			}
			failed := walkScopes(t, spoilt, map[byte]int{before: n, walked: n, after: n}, key)
			if !bytes.Equal(failed, c.failed) {
				t.Errorf("the walks of scopes %x fail, want %x", failed, c.failed)
			}
		})
	}
}

// valueOf is a value in which the key does not occur as it is.
func valueOf(key []byte) string { return fmt.Sprintf("value of %x", key) }

// walkScopes walks each scope of a file and returns those whose walk fails. Any other must have its number of keys.
func walkScopes(t *testing.T, file []byte, scopes map[byte]int, key func(byte, string) []byte) (failed []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		s := NewReader(bytes.NewReader(file), db.Info().PageSize).Snapshot(tx, SnapshotOptions{})
		defer s.Release()
		tree, ok, err := s.Bucket(bucketName(0), nil)
		if err != nil || !ok {
			return fmt.Errorf("bucket: %v, %w", ok, err)
		}
		for scope := byte(0); scope < 0x20; scope++ {
			c := s.Scan(tree, verifySum)
			from, got := key(scope, ""), 0
			err := c.SeekWithin(from, Span{From: from, To: key(scope+1, "")})
			for ; err == nil; err = c.Next() {
				if k, _ := c.Pair(); k == nil {
					break
				}
				got++
			}
			switch {
			case err != nil:
				failed = append(failed, scope)
			case got != scopes[scope]:
				t.Errorf("scope %x has %d keys, want %d", scope, got, scopes[scope])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return failed
}
