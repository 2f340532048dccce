package extent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/fulldisk"
)

func TestDiskFull(t *testing.T) {
	t.Parallel()
	if !fulldisk.Alone(t) {
		return
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	before := store(t, s, random(1, 1000))
	lift := fulldisk.Limit(t, 50_000)

	// The limit falls into the middle of a record, of which a part gets written.
	for range 3 {
		w := s.NewWriter(-1)
		w.Write(random(2, 80_000))
		if slices, err := w.Commit(); err == nil {
			t.Errorf("committed past the limit: %v", slices)
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("the writer took more after an error")
		}
		w.Close()
	}
	fits := store(t, s, random(3, 1000))
	if info, err := os.Stat(filepath.Join(dir, names(t, dir)[0])); err != nil || info.Size() != s.Size() {
		t.Errorf("the file has %d bytes of which %d are records: %v", info.Size(), s.Size(), err)
	}
	lift()
	after := store(t, s, random(4, 80_000))
	check := func() {
		wantContent(t, s, before, random(1, 1000))
		wantContent(t, s, fits, random(3, 1000))
		wantContent(t, s, after, random(4, 80_000))
	}
	check()
	closeChecked(t, s)
	s = open(t, dir, Options{})
	check()
	var n int64
	for _, x := range s.Stats() {
		n += x.Size
	}
	if want := int64(fileHeaderSize + 3*recordHeaderSize + 82_000); n != want {
		t.Errorf("the store has %d bytes, want %d: parts of refused records are left", n, want)
	}
	if len(names(t, dir)) != 1 {
		t.Errorf("files: %v", names(t, dir))
	}
}
