package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// ReadState reads what tells one file from another, and its older copies from it, without opening it.
func TestReadState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "k", "1")
	open := check.Must(ReadState(path))(t)
	check.OK(t, db.Close())
	closed := check.Must(ReadState(path))(t)
	if open.Closed || !closed.Closed || closed.Replicated {
		t.Errorf("open %+v, closed %+v", open, closed)
	}
	if len(open.ID) != 2*idSize || open.ID != closed.ID || open.Sum == closed.Sum {
		t.Errorf("the same file has another id, or changed without another sum: %+v, %+v", open, closed)
	}
	if info := check.Must(os.Stat(path))(t); closed.Size != info.Size() {
		t.Errorf("the size is %d, want %d", closed.Size, info.Size())
	}

	// A file of a replicated log says so.
	replicated := filepath.Join(t.TempDir(), "db")
	openAt(t, replicated, Options{Log: openLog(t, natscluster.Start(t, 1), 0, "shared")})
	if s := check.Must(ReadState(replicated))(t); !s.Replicated || s.ID == closed.ID {
		t.Errorf("of a replicated log: %+v", s)
	}

	// A file that is empty or of something else is refused. Of one that is cut, the size says it.
	for name, bad := range map[string][]byte{"empty": nil, "foreign": bytes.Repeat([]byte("text "), 10_000)} {
		check.OK(t, os.WriteFile(path, bad, 0o600))
		if s, err := ReadState(path); err == nil {
			t.Errorf("a file that is %s: %+v", name, s)
		}
	}
}
