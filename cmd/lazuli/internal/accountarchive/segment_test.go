package accountarchive

import (
	"os"
	"path/filepath"
	"testing"
)

// An archive of a stranger names no file outside of it, and nothing that does not end.
func TestSegmentsAreFilesOfTheArchive(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for _, path := range []string{outside, filepath.Join(dir, "inside")} {
		if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "device": "/dev/zero", "in": "inside"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, tc := range []struct {
		file  string
		bytes int64
		ok    bool
	}{{"inside", 5, true}, {"in", 5, true}, {"inside", 4, false}, {"out", 5, false}, {"device", 0, false}, {".", 0, false},
		{"../x", 5, false}, {"missing", 5, false}} {
		f, err := openSegment(dir, Segment{File: tc.file, Bytes: tc.bytes})
		if (err == nil) != tc.ok {
			t.Errorf("%s with %d bytes: %v", tc.file, tc.bytes, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}
