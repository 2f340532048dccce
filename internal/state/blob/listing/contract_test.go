package listing

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

const (
	flat   = record.Generation(5)
	forest = record.TreeBit | record.Generation(1<<40)
	// now is the time of all listings.
	now = ticks.Ticks(1000)
)

func open(t *testing.T) *store.DB {
	t.Helper()
	db := check.Must(store.Open(filepath.Join(t.TempDir(), "blobs.db"),
		store.Options{Buckets: record.Buckets(), Ephemeral: true}))(t)
	t.Cleanup(func() { check.OK(t, db.Close()) })
	return db
}

// text is an item as the tables below have it: a directory ends with a slash, a prefix begins with P:, a snapshot has
// an @, a version a #, what was deleted an exclamation mark, uncommitted blocks a question mark, and the newest version
// of a blob that is gone a star.
func text(i Item) string {
	if i.Prefix != "" {
		if i.Blob != nil && i.Blob.IsDirectory() {
			return "P:" + i.Prefix + "/"
		}
		return "P:" + i.Prefix
	}
	if i.Blob == nil {
		return i.Name + "?"
	}
	s := i.Name
	if i.Blob.IsDirectory() {
		s += "/"
	}
	if i.Blob.IsSnapshot() {
		s += fmt.Sprint("@", i.Blob.Slot)
	}
	if i.Blob.IsVersion() {
		s += fmt.Sprint("#", i.Blob.Slot)
	}
	if i.Blob.Deleted != 0 {
		s += "!"
	}
	if i.Deletion != 0 {
		s += fmt.Sprint(i.Deletion)
	}
	if i.VersionsOnly {
		s += "*"
	}
	return s
}

// enoughFor is the work of reading a number of records: a budget of no time ends at its first look at the clock, which
// is after a step of units.
func enoughFor(t *testing.T, records int) *budget.Work {
	const step = 1 << 14
	w := budget.New(t.Context(), 0)
	check.OK(t, w.Spend(step-(records+1)*RecordWork))
	return w
}

// pages lists everything in pages of a size, each of which may read a number of records; 0 is no limit.
func pages(t *testing.T, db *store.DB, l Blobs, size, records int) (items []string, err error) {
	t.Helper()
	l.Now = now
	for page := 0; page < 100; page++ {
		request := l
		request.Max = size
		if records > 0 {
			request.Work = enoughFor(t, records)
		}
		n := 0
		var next []byte
		err := db.View(func(tx *store.Tx) (err error) {
			next, err = request.Page(tx, "a", "box", func(i Item) error {
				items = append(items, text(i))
				n++
				return nil
			})
			return err
		})
		if err != nil {
			return items, err
		}
		if n > size || next != nil && n < size && !request.Short || request.Short && records == 0 {
			t.Errorf("a page of %d has %d items, short %v", size, n, request.Short)
		}
		if next == nil {
			return items, nil
		}
		l.From = next
	}
	return items, errors.New("the listing has no end")
}

// wantPages checks that pages of every size give the same items.
func wantPages(t *testing.T, db *store.DB, what string, l Blobs, want string) {
	t.Helper()
	for _, size := range []int{1, 2, 3, 5, 100} {
		for _, records := range []int{0, 1, 3} {
			got, err := pages(t, db, l, size, records)
			if text := strings.Join(got, " "); err != nil || text != want {
				t.Errorf("%s, pages of %d with %d records: %.300q, %v; want %q", what, size, records, text, err, want)
			}
		}
	}
}

// A page has what the request includes, in order, whatever the size of the pages.
func TestPagesOfAContainer(t *testing.T) {
	t.Parallel()
	db := open(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		record.PutContainer(tx, "a", "box", &record.Container{Generation: flat})
		put := func(name string, slot record.Slot, b record.Blob) {
			b.Kind = record.BlockBlob
			record.PutBlob(tx, flat.Item(name), slot, &b)
		}
		pending := func(name string) {
			tx.Put(record.PendingBucket, record.PendingKey(flat.Item(name)), record.Pending{Set: 9}.Encode())
		}
		put("a", record.BaseSlot, record.Blob{})
		put("b/1", 10, record.Blob{})
		put("b/1", record.BaseSlot, record.Blob{})
		put("b/2", record.BaseSlot, record.Blob{Deleted: 1, KeptDays: 1})
		pending("b/2")
		pending("b/3")
		pending("c")
		pending("d")
		put("d", record.BaseSlot, record.Blob{})
		put("e", 20, record.Blob{Version: 20})
		put("e", 21, record.Blob{Version: 21})
		put("f", 30, record.Blob{Version: 30})
		put("f", record.BaseSlot, record.Blob{Version: 31})
		put("g", 40, record.Blob{})
		put("g", record.BaseSlot, record.Blob{Expires: now})
		put("h", record.BaseSlot, record.Blob{Expires: now, Version: 50})
		put("i", record.BaseSlot, record.Blob{Expires: now + 1})
		// Another container, behind it.
		record.PutBlob(tx, record.Generation(6).Item("a"), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
		return nil
	}))
	for _, c := range []struct {
		what string
		l    Blobs
		want string
	}{
		{"blobs", Blobs{}, "a b/1 d f i"},
		{"snapshots", Blobs{Snapshots: true}, "a b/1@10 b/1 d f i"},
		{"deleted", Blobs{Deleted: true}, "a b/1 b/2! d f i"},
		{"uncommitted", Blobs{Uncommitted: true}, "a b/1 b/2? b/3? c? d f i"},
		{"uncommitted and deleted", Blobs{Uncommitted: true, Deleted: true}, "a b/1 b/2! b/3? c? d f i"},
		{"versions", Blobs{Versions: true}, "a b/1 d e#20 e#21 f#30 f h#50 i"},
		{"versions and deleted", Blobs{Versions: true, Deleted: true}, "a b/1 b/2! d e#20 e#21 f#30 f h#50 i"},
		{"deleted with versions", Blobs{VersionsOnly: true}, "a b/1 d e#21* f h#50* i"},
		{"all", Blobs{Snapshots: true, Uncommitted: true, Deleted: true},
			"a b/1@10 b/1 b/2! b/3? c? d f i"},
		{"a prefix", Blobs{Prefix: "b/"}, "b/1"},
		{"a prefix with more", Blobs{Prefix: "b/", Snapshots: true, Uncommitted: true}, "b/1@10 b/1 b/2? b/3?"},
		{"a prefix of nothing", Blobs{Prefix: "z"}, ""},
		{"a whole name", Blobs{Prefix: "f", Versions: true}, "f#30 f"},
		{"a hierarchy", Blobs{Delimiter: "/"}, "a P:b/ d f i"},
		{"a hierarchy with more", Blobs{Delimiter: "/", Uncommitted: true, Snapshots: true}, "a P:b/ c? d f i"},
		{"a level below", Blobs{Delimiter: "/", Prefix: "b/", Deleted: true}, "b/1 b/2!"},
		{"a prefix that is cut", Blobs{Delimiter: "/", Prefix: "b"}, "P:b/"},
		{"another delimiter", Blobs{Delimiter: "1"}, "a P:b/1 d f i"},
		{"an end", Blobs{EndBefore: "d", Uncommitted: true}, "a b/1 b/2? b/3? c?"},
		{"an end between names", Blobs{EndBefore: "b/11"}, "a b/1"},
	} {
		wantPages(t, db, c.what, c.l, c.want)
	}
	failed := errors.New("failed")
	check.OK(t, db.View(func(tx *store.Tx) error {
		l := Blobs{Max: 5, Now: now}
		if _, err := l.Page(tx, "a", "box", func(Item) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("an item that is not taken: %v", err)
		}
		if _, err := l.Page(tx, "a", "box", func(Item) error { l.Max = 1; return nil }); err != nil || l.Max != 1 {
			t.Errorf("a page that ends early: %v", err)
		}
		l = Blobs{Max: 5, Now: now}
		if _, err := l.Page(tx, "a", "none", nil); !errors.Is(err, record.ErrContainerNotFound) {
			t.Errorf("a container that does not exist: %v", err)
		}
		return nil
	}))
}

// A listing that meets a record that it cannot read fails, and is not shorter.
func TestDamageInAListing(t *testing.T) {
	t.Parallel()
	bad := []byte{9}
	for name, c := range map[string]struct {
		put func(tx *store.Tx)
		l   Blobs
	}{
		"blob": {func(tx *store.Tx) {
			tx.Put(record.BlobsBucket, record.BlobKey(flat.Item("b"), record.BaseSlot), bad)
		}, Blobs{}},
		"key": {func(tx *store.Tx) { tx.Put(record.BlobsBucket, append(flat.Prefix(), "abc"...), bad) }, Blobs{}},
		"a version": {func(tx *store.Tx) {
			tx.Put(record.BlobsBucket, record.BlobKey(flat.Item("b"), 3), bad)
		}, Blobs{Versions: true}},
		"key of uncommitted blocks": {func(tx *store.Tx) {
			tx.Put(record.PendingBucket, append(flat.Prefix(), "abc"...), bad)
		}, Blobs{Uncommitted: true}},
		"the name's other records": {func(tx *store.Tx) {
			record.PutBlob(tx, flat.Item("b"), 3, &record.Blob{Kind: record.BlockBlob})
			tx.Put(record.BlobsBucket, record.BlobKey(flat.Item("b"), 4), bad)
		}, Blobs{Snapshots: true}},
	} {
		db := open(t)
		check.OK(t, db.Update(func(tx *store.Tx) error {
			record.PutContainer(tx, "a", "box", &record.Container{Generation: flat})
			c.put(tx)
			return nil
		}))
		if got, err := pages(t, db, c.l, 10, 0); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// plant makes a tree: paths with a slash at the end are directories.
func plant(t *testing.T, db *store.DB, paths ...string) {
	t.Helper()
	check.OK(t, db.Update(func(tx *store.Tx) error {
		record.PutContainer(tx, "a", "box", &record.Container{Generation: forest})
		root := record.NewRoot(posix.SuperUser, "a\x00box")
		record.PutBlob(tx, forest.Root().Item(), record.BaseSlot, &root)
		for _, path := range paths {
			name, uncommitted := strings.CutSuffix(path, "?")
			p, err := tree.Find(tx, forest, name, nil)
			if err != nil {
				return err
			}
			b := &record.Blob{Kind: record.BlockBlob}
			if uncommitted {
				b = nil
			}
			l := tree.Link{Place: &p, Tx: tx, At: 1, New: &tree.NewNode{Directory: strings.HasSuffix(path, "/")}}
			if err := l.Make(b); err != nil {
				return err
			}
			if uncommitted {
				tx.Put(record.PendingBucket, record.PendingKey(p.Item), record.Pending{Set: 9}.Encode())
				continue
			}
			record.PutBlob(tx, p.Item, record.BaseSlot, b)
		}
		return nil
	}))
}

// inode returns the inode at a path.
func inode(t *testing.T, db *store.DB, path string) (n record.Inode) {
	t.Helper()
	check.OK(t, db.View(func(tx *store.Tx) error {
		p, err := tree.Find(tx, forest, path, nil)
		n = p.Item.Inode()
		return err
	}))
	return n
}

// The same for a tree, where directories are items, and what was deleted has a list of its own.
func TestPagesOfATree(t *testing.T) {
	t.Parallel()
	db := open(t)
	plant(t, db, "a", "b/", "b/c", "b/d/", "b/d/e", "b.x", "c?", "x/", "x/y?", "x/z")
	xz := inode(t, db, "x/z")
	check.OK(t, db.Update(func(tx *store.Tx) error {
		record.PutBlob(tx, xz.Item(), 7, &record.Blob{Kind: record.BlockBlob, Node: &record.Node{Name: "z"}})
		for number, path := range map[uint64]string{3: "b/gone", 4: "b/gone", 5: "zz", 6: "old/one", 7: "old/two"} {
			n := record.Inode(1000 + number)
			record.PutBlob(tx, n.Item(), record.BaseSlot, &record.Blob{Kind: record.BlockBlob, Node: &record.Node{Name: "n"}})
			tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), path, number),
				(&record.Trash{Inode: n, Kind: record.EntryFile, Deleted: 5, Days: 1}).Encode())
		}
		return nil
	}))
	for _, c := range []struct {
		what string
		l    Blobs
		want string
	}{
		{"items", Blobs{}, "a b/ b/c b/d/ b/d/e b.x x/ x/z"},
		{"uncommitted", Blobs{Uncommitted: true}, "a b/ b/c b/d/ b/d/e b.x c? x/ x/y? x/z"},
		{"snapshots", Blobs{Snapshots: true}, "a b/ b/c b/d/ b/d/e b.x x/ x/z@7 x/z"},
		{"snapshots and uncommitted", Blobs{Snapshots: true, Uncommitted: true},
			"a b/ b/c b/d/ b/d/e b.x c? x/ x/y? x/z@7 x/z"},
		{"files", Blobs{Only: Files}, "a b/c b/d/e b.x x/z"},
		{"directories", Blobs{Only: Directories}, "b/ b/d/ x/"},
		{"deleted", Blobs{Deleted: true},
			"a b/ b/c b/d/ b/d/e b/gone!3 b/gone!4 b.x old/one!6 old/two!7 x/ x/z zz!5"},
		{"deleted alone", Blobs{Only: DeletedItems}, "b/gone!3 b/gone!4 old/one!6 old/two!7 zz!5"},
		{"deleted below", Blobs{Only: DeletedItems, Prefix: "b/"}, "b/gone!3 b/gone!4"},
		{"deleted in a hierarchy", Blobs{Only: DeletedItems, Delimiter: "/"}, "P:b// P:old/ zz!5"},
		{"a hierarchy", Blobs{Delimiter: "/"}, "a P:b// b.x P:x//"},
		{"a hierarchy with what was deleted", Blobs{Delimiter: "/", Deleted: true}, "a P:b// b.x P:old/ P:x// zz!5"},
		{"directories of a level", Blobs{Delimiter: "/", Only: Directories}, "P:b// P:x//"},
		{"files of a level", Blobs{Delimiter: "/", Only: Files}, "a b.x"},
		{"a prefix", Blobs{Prefix: "b"}, "b/ b/c b/d/ b/d/e b.x"},
		{"a prefix with a slash", Blobs{Prefix: "b/"}, "b/c b/d/ b/d/e"},
		{"a prefix in a directory", Blobs{Prefix: "b/d"}, "b/d/ b/d/e"},
		{"a prefix below a file", Blobs{Prefix: "a/"}, ""},
		{"a prefix of nothing", Blobs{Prefix: "none/"}, ""},
		{"a prefix of what was deleted", Blobs{Prefix: "old/", Deleted: true}, "old/one!6 old/two!7"},
		{"an end", Blobs{EndBefore: "b/d"}, "a b/ b/c"},
		{"an end of what was deleted", Blobs{EndBefore: "old/two", Deleted: true},
			"a b/ b/c b/d/ b/d/e b/gone!3 b/gone!4 b.x old/one!6"},
		{"paths", Blobs{Paths: true, Directory: "b"}, "b/c b/d/ b/d/e"},
		{"paths of a level", Blobs{Paths: true, Directory: "b", Delimiter: "/"}, "b/c b/d/"},
		{"paths of the root", Blobs{Paths: true, Delimiter: "/"}, "a b/ b.x x/"},
		{"a file as a directory", Blobs{Paths: true, Directory: "b/c"}, "b/c"},
	} {
		wantPages(t, db, c.what, c.l, c.want)
	}
	for _, c := range []struct {
		what string
		l    Blobs
		want error
	}{
		{"paths of a directory that does not exist", Blobs{Paths: true, Directory: "none"}, record.ErrBlobNotFound},
		{"paths below a file", Blobs{Paths: true, Directory: "a/b"}, record.ErrBlobNotFound},
		{"what was deleted, for a caller with limits",
			Blobs{Deleted: true, Caller: &posix.Caller{ID: "alice", Checked: true}}, record.ErrAccess},
		{"a position", Blobs{From: []byte("a\x00short")}, record.ErrKey},
	} {
		if got, err := pages(t, db, c.l, 10, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", c.what, got, err, c.want)
		}
	}
}

// A caller sees what the lists of the directories let him read.
func TestListingsOfACaller(t *testing.T) {
	t.Parallel()
	db := open(t)
	plant(t, db, "open/", "open/file")
	n := inode(t, db, "open")
	alice := &posix.Caller{ID: "alice", Checked: true}
	access := func(n record.Inode, mode posix.Mode) {
		check.OK(t, db.Update(func(tx *store.Tx) error {
			var b record.Blob
			err := record.LoadBlob(tx, n.Item(), record.BaseSlot, &b)
			b.Node.Access = posix.Of(mode)
			record.PutBlob(tx, n.Item(), record.BaseSlot, &b)
			return err
		}))
	}
	access(forest.Root(), 0o755)
	for mode, want := range map[posix.Mode]error{0o755: nil, 0o754: record.ErrAccess, 0o751: record.ErrAccess} {
		access(n, mode)
		got, err := pages(t, db, Blobs{Paths: true, Directory: "open", Caller: alice}, 10, 0)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%o: %q, %v; want %v", mode, got, err, want)
		}
	}
}

// A tree with an entry, a record or a deletion that is lost or damaged is not listed as a smaller one, and not as one
// that does not exist.
func TestDamageInAListingOfATree(t *testing.T) {
	t.Parallel()
	bad := []byte{9}
	for name, c := range map[string]struct {
		damage func(tx *store.Tx, file, directory record.Inode)
		l      Blobs
	}{
		"lost record of a file": {func(tx *store.Tx, file, _ record.Inode) {
			tx.Delete(record.BlobsBucket, record.BlobKey(file.Item(), record.BaseSlot))
		}, Blobs{}},
		"lost record of a directory": {func(tx *store.Tx, _, directory record.Inode) {
			tx.Delete(record.BlobsBucket, record.BlobKey(directory.Item(), record.BaseSlot))
		}, Blobs{Delimiter: "/"}},
		"damaged entry of a prefix": {func(tx *store.Tx, _, _ record.Inode) {
			tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), "d/gone", 1), (&record.Trash{Inode: 4000}).Encode())
			tx.Put(record.NamesBucket, record.EntryKey(forest.Root(), "d"), bad)
		}, Blobs{Only: DeletedItems, Delimiter: "/"}},
		"damaged record of a file": {func(tx *store.Tx, file, _ record.Inode) {
			tx.Put(record.BlobsBucket, record.BlobKey(file.Item(), record.BaseSlot), bad)
		}, Blobs{}},
		"damaged record, with snapshots": {func(tx *store.Tx, file, _ record.Inode) {
			tx.Put(record.BlobsBucket, record.BlobKey(file.Item(), 3), bad)
		}, Blobs{Snapshots: true}},
		"damaged entry": {func(tx *store.Tx, _, directory record.Inode) {
			tx.Put(record.NamesBucket, record.EntryKey(directory, "file"), bad)
		}, Blobs{}},
		"damaged deletion": {func(tx *store.Tx, _, _ record.Inode) {
			tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), "p", 1), bad)
		}, Blobs{Deleted: true}},
		"damaged key of a deletion": {func(tx *store.Tx, _, _ record.Inode) {
			tx.Put(record.TrashBucket, append(record.IDPrefix(uint64(forest.Root())), "p"...), bad)
		}, Blobs{Deleted: true}},
		"deletion without a record": {func(tx *store.Tx, _, _ record.Inode) {
			tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), "p", 1), (&record.Trash{Inode: 4000}).Encode())
		}, Blobs{Deleted: true}},
		"lost directory of a prefix": {func(tx *store.Tx, _, directory record.Inode) {
			tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), "d/gone", 1), (&record.Trash{Inode: 4000}).Encode())
			tx.Delete(record.BlobsBucket, record.BlobKey(directory.Item(), record.BaseSlot))
		}, Blobs{Only: DeletedItems, Delimiter: "/"}},
	} {
		db := open(t)
		plant(t, db, "d/", "d/file")
		file, directory := inode(t, db, "d/file"), inode(t, db, "d")
		check.OK(t, db.Update(func(tx *store.Tx) error { c.damage(tx, file, directory); return nil }))
		got, err := pages(t, db, c.l, 10, 0)
		if err == nil || strings.HasPrefix(name, "lost ") && !errors.Is(err, record.ErrMalformed) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A listing ends when its client is gone or takes no more, wherever it is.
func TestListingsEnd(t *testing.T) {
	t.Parallel()
	flatDB, treeDB := open(t), open(t)
	plant(t, treeDB, "a", "b/", "b/c")
	check.OK(t, treeDB.Update(func(tx *store.Tx) error {
		record.PutBlob(tx, record.Inode(1000).Item(), record.BaseSlot,
			&record.Blob{Kind: record.BlockBlob, Node: &record.Node{Name: "n"}})
		tx.Put(record.TrashBucket, record.TrashKey(forest.Root(), "0", 1), (&record.Trash{Inode: 1000, Deleted: 5}).Encode())
		return nil
	}))
	check.OK(t, flatDB.Update(func(tx *store.Tx) error {
		record.PutContainer(tx, "a", "box", &record.Container{Generation: flat})
		record.PutBlob(tx, flat.Item("a"), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
		tx.Put(record.PendingBucket, append(flat.Prefix(), "0"...), []byte{9})
		return nil
	}))
	gone, leave := context.WithCancel(t.Context())
	leave()
	failed := errors.New("failed")
	for what, c := range map[string]struct {
		db *store.DB
		l  Blobs
	}{"a container": {flatDB, Blobs{}}, "a tree": {treeDB, Blobs{}}, "deleted": {treeDB, Blobs{Only: DeletedItems}},
		"a file as a directory": {treeDB, Blobs{Paths: true, Directory: "a"}}} {
		check.OK(t, c.db.View(func(tx *store.Tx) error {
			l := c.l
			l.Max, l.Now = 10, now
			if _, err := l.Page(tx, "a", "box", func(Item) error { return failed }); !errors.Is(err, failed) {
				t.Errorf("%s, an item that is not taken: %v", what, err)
			}
			if what == "a file as a directory" { // one record, which costs nothing
				return nil
			}
			l = c.l
			l.Max, l.Now, l.Work = 10, now, budget.New(gone, time.Hour)
			_ = l.Work.Spend(1<<14 - 1)
			if _, err := l.Page(tx, "a", "box", func(Item) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, a client that is gone: %v", what, err)
			}
			return nil
		}))
	}
	// The position of uncommitted blocks whose key is damaged is no position.
	check.OK(t, flatDB.View(func(tx *store.Tx) error {
		l := Blobs{Uncommitted: true, Max: 10, Now: now, Work: enoughFor(t, 0)}
		if next, err := l.Page(tx, "a", "box", func(Item) error { return nil }); err == nil {
			t.Errorf("a page ends at a damaged key, and the next begins at %q", next)
		}
		return nil
	}))
}

// A full last page of versions and deleted blobs is followed by an empty one, as recordings of Azure have it; others
// are not.
func TestAFullLastPage(t *testing.T) {
	t.Parallel()
	db := open(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		record.PutContainer(tx, "a", "box", &record.Container{Generation: flat})
		for _, name := range []string{"a", "b"} {
			record.PutBlob(tx, flat.Item(name), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
		}
		return nil
	}))
	for _, c := range []struct {
		l       Blobs
		another bool
	}{{Blobs{}, false}, {Blobs{Versions: true}, false}, {Blobs{Deleted: true}, false},
		{Blobs{Versions: true, Deleted: true}, true}} {
		c.l.Max, c.l.Now = 2, now
		check.OK(t, db.View(func(tx *store.Tx) error {
			next, err := c.l.Page(tx, "a", "box", func(Item) error { return nil })
			if err != nil || (next != nil) != c.another {
				t.Errorf("versions %v, deleted %v: the next page begins at %q, %v", c.l.Versions, c.l.Deleted, next, err)
			}
			if next == nil {
				return nil
			}
			c.l.From = next
			next, err = c.l.Page(tx, "a", "box", func(i Item) error { t.Errorf("then comes %s", text(i)); return nil })
			if err != nil || next != nil {
				t.Errorf("the empty page: %q, %v", next, err)
			}
			return nil
		}))
	}
}

// Containers are listed by name, those that were deleted before the one that exists, and a marker continues anywhere.
func TestPagesOfContainers(t *testing.T) {
	t.Parallel()
	db := open(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		for i, name := range []string{"$logs", "$root", "$web", "a", "b", "b1", "c"} {
			record.PutContainer(tx, "acc", name, &record.Container{Generation: record.Generation(i + 1)})
		}
		record.PutContainer(tx, "acc2", "other", &record.Container{Generation: 20})
		record.PutContainer(tx, "ab", "other", &record.Container{Generation: 21})
		for i, name := range []string{"a", "a", "bb", "d"} {
			deleted := ticks.Ticks(record.Epoch1601 + 100 + i)
			tx.Put(record.DeletedContainersBucket, record.DeletedContainerKey("acc", name, deleted),
				(&record.Container{Generation: record.Generation(30 + i), Deleted: deleted}).Encode())
		}
		return nil
	}))
	// each lists from a marker, and returns the markers by which each item can be the first of a page.
	each := func(l Containers, marker string, size int) (names, markers []string) {
		if !l.Start(marker) {
			t.Errorf("the marker %q is refused", marker)
		}
		check.OK(t, db.View(func(tx *store.Tx) error {
			return l.Each(tx, func(name string, c *record.Container) bool {
				if c.Deleted != 0 {
					name += "!"
				}
				names, markers = append(names, name), append(markers, l.Marker(strings.TrimSuffix(name, "!"), c))
				return len(names) < size
			})
		}))
		return names, markers
	}
	for _, c := range []struct {
		what string
		l    Containers
		want string
	}{
		{"containers", Containers{Account: "acc"}, "$root $web a b b1 c"},
		{"deleted", Containers{Account: "acc", Deleted: true}, "$root $web a! a! a b b1 bb! c d!"},
		{"of the system", Containers{Account: "acc", System: true}, "$logs $root $web a b b1 c"},
		{"a prefix", Containers{Account: "acc", Prefix: "b", Deleted: true}, "b b1 bb!"},
		{"another account", Containers{Account: "acc2"}, "other"},
		{"no account", Containers{Account: "ac"}, ""},
	} {
		all, markers := each(c.l, "", 100)
		if got := strings.Join(all, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		for i, marker := range markers {
			if got, _ := each(c.l, marker, 100); !slices.Equal(got, all[i:]) {
				t.Errorf("%s, from %s: %q, want %q", c.what, marker, got, all[i:])
			}
		}
	}
	if got, _ := each(Containers{Account: "acc"}, "", 2); !slices.Equal(got, []string{"$root", "$web"}) {
		t.Errorf("two of them: %q", got)
	}
	l := Containers{Account: "acc", Prefix: "b"}
	if got, _ := each(l, "/acc/a", 100); !slices.Equal(got, []string{"b", "b1"}) {
		t.Errorf("a marker before the prefix: %q", got)
	}
	for _, marker := range []string{"a", "/acc2/other", "/acc", "/acc/a/", "/acc/a/zz", "/acc/a/0"} {
		if l := (Containers{Account: "acc", Deleted: true}); l.Start(marker) {
			t.Errorf("the marker %q is taken", marker)
		}
	}
	check.OK(t, db.Update(func(tx *store.Tx) error {
		tx.Put(record.ContainersBucket, record.ContainerKey("acc", "bad"), []byte{9})
		return nil
	}))
	bad := Containers{Account: "acc"}
	bad.Start("")
	if err := db.View(func(tx *store.Tx) error {
		return bad.Each(tx, func(string, *record.Container) bool { return true })
	}); err == nil {
		t.Error("a damaged container is passed over")
	}
}
