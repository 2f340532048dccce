package tree

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// box is the container of the tests. No inode gets its number.
const box = record.TreeBit | 1<<40

// open returns a database with the root of the container box.
func open(t *testing.T) *store.DB {
	t.Helper()
	db := check.Must(store.Open(filepath.Join(t.TempDir(), "blobs.db"),
		store.Options{Buckets: record.Buckets(), Ephemeral: true}))(t)
	t.Cleanup(func() { check.OK(t, db.Close()) })
	check.OK(t, db.Update(func(tx *store.Tx) error {
		root := record.NewRoot(posix.SuperUser, "a\x00box")
		record.PutBlob(tx, record.Generation(box).Root().Item(), record.BaseSlot, &root)
		return nil
	}))
	return db
}

// create makes a file, or with a slash at its end a directory, for a caller.
func create(tx *store.Tx, path string, caller *posix.Caller) error {
	p, err := Find(tx, box, path, caller)
	if err != nil {
		return err
	}
	b := record.Blob{Kind: record.BlockBlob}
	l := Link{Place: &p, Tx: tx, At: 1, Caller: caller, New: &NewNode{Directory: strings.HasSuffix(path, "/")}}
	if err := l.Make(&b); err != nil {
		return err
	}
	record.PutBlob(tx, p.Item, record.BaseSlot, &b)
	return nil
}

// walk returns the paths from a position on, directories with a slash. Nothing in a transaction may end the test: the
// database could not be closed.
func walk(t *testing.T, tx *store.Tx, from string) (paths []string) {
	t.Helper()
	w := Walk{Tx: tx}
	if err := w.Begin(record.Generation(box).Root(), "", "", from); err != nil {
		t.Error(err)
		return nil
	}
	for {
		more, err := w.Next()
		if err != nil {
			t.Errorf("behind %q: %v", paths, err)
		}
		if err != nil || !more {
			return paths
		}
		path := w.Path
		if w.Descend = w.Last.Kind == record.EntryDirectory; w.Descend {
			path += "/"
		}
		if depth := strings.Count(w.Path, "/") + 1; w.Depth() != depth {
			t.Errorf("%s is at depth %d, want %d", path, w.Depth(), depth)
		}
		paths = append(paths, path)
	}
}

// A walk visits all that exists in the order of paths, and from a position on what is not before it. Directories that
// lead to the position are before it.
func TestWalk(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		db := open(t)
		all := map[string]bool{}
		check.OK(t, db.Update(func(tx *store.Tx) error {
			for range 30 {
				var path string
				for range 1 + random.IntN(3) {
					path = strings.TrimPrefix(path+"/"+string("ab-0"[random.IntN(4)]), "/")
				}
				path += []string{"", "/"}[random.IntN(2)]
				err := create(tx, path, nil)
				if p, found := Find(tx, box, path, nil); err == nil && found == nil {
					for i := range strings.Count(p.Path, "/") {
						all[strings.Join(strings.Split(p.Path, "/")[:i+1], "/")+"/"] = true
					}
					all[p.Path+[]string{"", "/"}[map[byte]int{record.EntryDirectory: 1}[p.Kind]]] = true
				}
			}
			return nil
		}))
		var want []string
		for path := range all {
			want = append(want, path)
		}
		slices.SortFunc(want, func(a, b string) int {
			return ComparePaths(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
		})
		check.OK(t, db.View(func(tx *store.Tx) error {
			if got := walk(t, tx, ""); !slices.Equal(got, want) {
				t.Errorf("the walk visits %q, want %q", got, want)
			}
			for i, from := range want {
				from = strings.TrimSuffix(from, "/")
				if got := walk(t, tx, from); !slices.Equal(got, want[i:]) {
					t.Errorf("from %s the walk visits %q, want %q", from, got, want[i:])
				}
			}
			return nil
		}))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	db := open(t)
	check.OK(t, db.Update(func(tx *store.Tx) error { return create(tx, "d/e/f", nil) }))
	for _, tc := range []struct {
		path, clean string
		kind        byte
		missing     []string
		above       int
		err         error
	}{
		{"", "", record.EntryDirectory, nil, 0, nil},
		{"d", "d", record.EntryDirectory, nil, 1, nil},
		{"/d//e/f/", "d/e/f", record.EntryFile, nil, 3, nil},
		{"d/x", "d/x", 0, nil, 2, nil},
		{"d/x/y/z", "d/x/y/z", 0, []string{"x", "y"}, 2, nil},
		{"d/e/f/g", "", 0, nil, 0, ErrPathConflict},
		{"d/../x", "", 0, nil, 0, record.ErrBlobName},
		{strings.Repeat("x/", MaxDepth) + "f", strings.Repeat("x/", MaxDepth) + "f", 0,
			slices.Repeat([]string{"x"}, MaxDepth), 1, nil},
		{strings.Repeat("x/", MaxDepth+1) + "f", "", 0, nil, 0, ErrPathDepth},
	} {
		check.OK(t, db.View(func(tx *store.Tx) error {
			p, err := Find(tx, box, tc.path, nil)
			if !errors.Is(err, tc.err) {
				t.Errorf("%s: %v, want %v", tc.path, err, tc.err)
			}
			if err == nil && (p.Path != tc.clean || p.Kind != tc.kind || !slices.Equal(p.Missing, tc.missing) ||
				len(p.Above) != tc.above || p.Item.Exists() != (tc.kind != 0)) {
				t.Errorf("%s: %+v", tc.path, p)
			}
			return nil
		}))
	}
}

// A directory that moves takes with it what is in it, and leaves no entry where it was. The record that others may have
// read stays as it was.
func TestMove(t *testing.T) {
	t.Parallel()
	db := open(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		return errors.Join(create(tx, "d/e/f", nil), create(tx, "to/", nil))
	}))
	check.OK(t, db.Update(func(tx *store.Tx) error {
		from, err1 := Find(tx, box, "d/e", nil)
		to, err2 := Find(tx, box, "to/x", nil)
		var b record.Blob
		if err := errors.Join(err1, err2, record.LoadBlob(tx, from.Item, record.BaseSlot, &b)); err != nil {
			return err
		}
		before := b.Node
		if err := to.Move(tx, nil, &from, &b); err != nil {
			return err
		}
		record.PutBlob(tx, to.Item, record.BaseSlot, &b)
		if before.Name != "e" || b.Node.Name != "x" || b.Node.Parent != to.Parent || to.Item != from.Item {
			t.Errorf("the node is %+v, the place %+v, and the node before %+v", b.Node, to, before)
		}
		d, err := Find(tx, box, "d", nil)
		if HasChildren(tx, d.Item.Inode()) {
			t.Error("the directory still has the entry")
		}
		return err
	}))
	check.OK(t, db.View(func(tx *store.Tx) error {
		if got, want := walk(t, tx, ""), []string{"d/", "to/", "to/x/", "to/x/f"}; !slices.Equal(got, want) {
			t.Errorf("the tree has %q, want %q", got, want)
		}
		return nil
	}))
}
