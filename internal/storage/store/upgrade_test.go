package store

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// version1 unpacks files that a release with format 1 wrote, and returns their folder: "closed", and "crashed" with a log.
func version1(t *testing.T) string {
	t.Helper()
	dir := memoryDir(t)
	f, err := os.Open("testdata/version1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, h.Name))
		if err == nil {
			_, err = io.Copy(out, r)
		}
		if err = errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// version1Content is what was written to both.
func version1Content() (a, b model) {
	a, b = model{}, model{}
	for i := range 500 {
		a[fmt.Sprintf("key %04d", i)] = fmt.Sprintf("value %0*d", i%300, i)
		if i%3 == 0 {
			b[fmt.Sprint(i)] = ""
		}
		if i%10 == 9 {
			delete(a, fmt.Sprintf("key %04d", i-5))
		}
	}
	return a, b
}

func bucketContent(t *testing.T, db *DB, b Bucket) model {
	t.Helper()
	m := model{}
	err := db.View(func(tx *Tx) error {
		c := tx.Cursor(b)
		for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
			m[string(k)] = string(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestVersion1IsReadAndUpgraded(t *testing.T) {
	t.Parallel()
	a, b := version1Content()
	dir := version1(t)
	for _, name := range []string{"closed", "crashed"} {
		for _, o := range []Options{{ReadOnly: true}, {}, {ReadOnly: true}, {}} {
			db := openAt(t, filepath.Join(dir, name), o)
			if got := bucketContent(t, db, "a"); !maps.Equal(got, a) {
				t.Errorf("%s, %+v: bucket a differs: %d keys, want %d", name, o, len(got), len(a))
			}
			if got := bucketContent(t, db, "b"); !maps.Equal(got, b) {
				t.Errorf("%s, %+v: bucket b differs: %d keys, want %d", name, o, len(got), len(b))
			}
			if !o.ReadOnly && db.version != currentVersion {
				t.Errorf("%s: version %d after Open", name, db.version)
			}
			closeChecked(t, db)
		}
	}
}

// A crash during an upgrade leaves a part of the new file, which the next Open replaces.
func TestUpgradeThatWasInterrupted(t *testing.T) {
	t.Parallel()
	a, _ := version1Content()
	path := filepath.Join(version1(t), "crashed")
	if err := os.WriteFile(path+upgradeSuffix, []byte("a part"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := openAt(t, path, Options{})
	if got := bucketContent(t, db, "a"); !maps.Equal(got, a) {
		t.Errorf("bucket a differs: %d keys, want %d", len(got), len(a))
	}
	if _, err := os.Stat(path + upgradeSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the part of the new file is still there: %v", err)
	}
}
