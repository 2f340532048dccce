package tree

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// root is a caller that no list limits.
func root() *posix.Caller { return nil }

func TestCleanPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", record.MaxSegment)
	for _, c := range []struct {
		path, clean string
		segments    int
		bad         bool
	}{
		{"", "", 0, false}, {"/", "", 0, false}, {"a", "a", 1, false}, {"a/b", "a/b", 2, false}, {"/a//b/", "a/b", 2, false},
		{"a/", "a", 1, false}, {"a//b", "a/b", 2, false}, {"...", "...", 1, false}, {".", "", 0, true}, {"a/..", "", 0, true},
		{"a/./b", "", 0, true}, {long + "/b", long + "/b", 2, false}, {"b/" + long + "x", "", 0, true},
	} {
		clean, segments, err := CleanPath(c.path)
		if (err != nil) != c.bad || err != nil && !errors.Is(err, record.ErrBlobName) {
			t.Errorf("%.20q: %v", c.path, err)
		}
		if err == nil && (clean != c.clean || len(segments) != c.segments || strings.Join(segments, "/") != clean) {
			t.Errorf("%.20q is %.20q, with %d segments; want %.20q with %d", c.path, clean, len(segments), c.clean, c.segments)
		}
	}
}

// A path may have MaxDepth directories, and no more.
func TestDepthOfPaths(t *testing.T) {
	t.Parallel()
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		deepest := strings.Repeat("d/", MaxDepth) + "file"
		if err := create(tx, deepest, root()); err != nil {
			t.Errorf("%d directories: %v", MaxDepth, err)
		}
		p, err := Find(tx, box, deepest, root())
		if err != nil || p.Kind != record.EntryFile || len(p.Above) != MaxDepth+1 || !p.Item.Exists() || len(p.Missing) > 0 {
			t.Errorf("the deepest file is %+v, %v", p, err)
		}
		if _, err := Find(tx, box, "d/"+deepest, root()); !errors.Is(err, ErrPathDepth) {
			t.Errorf("%d directories: %v", MaxDepth+1, err)
		}
		if _, err := Find(tx, box, deepest+"/below", root()); !errors.Is(err, ErrPathDepth) {
			t.Errorf("below the deepest file: %v", err)
		}
		return nil
	}))
}

// What is removed leaves no record behind, gives up its contents, and takes nothing of another item.
func TestRemoveItem(t *testing.T) {
	t.Parallel()
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		blocks := func(set uint64, n int) record.Pending {
			for i := range n {
				tx.Put(record.BlocksBucket, record.BlockKey(set, string(rune('a'+i))), record.EncodeBlock(content.Piece{Length: 1}))
			}
			return record.Pending{Set: set, Count: int64(n)}
		}
		var contents []record.PieceList
		for n := record.Inode(100); n < 103; n++ {
			it := n.Item()
			for _, slot := range []record.Slot{1, 2, record.BaseSlot} {
				b := record.Blob{Kind: record.BlockBlob, Content: record.NewContent(tx)}
				if slot == 1 {
					b.Deleted, b.KeptDays = 5, 1
					tx.Put(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), record.BlobKey(it, slot)), nil)
				}
				contents = append(contents, b.Content)
				record.PutBlob(tx, it, slot, &b)
			}
			tx.Put(record.PendingBucket, record.PendingKey(it), blocks(uint64(n), 3).Encode())
			arrived := blocks(uint64(n)+1000, 2)
			tx.Put(record.CopiesBucket, record.PendingKey(it),
				(&record.CopyJob{Set: arrived.Set, Blocks: arrived.Count}).Encode())
		}
		check.OK(t, RemoveItem(tx, record.Inode(101).Item()))
		for bucket, of := range map[store.Bucket]int{record.BlobsBucket: 3, record.DeletedBlobsBucket: 1,
			record.PendingBucket: 1, record.BlocksBucket: 5, record.CopiesBucket: 1} {
			got := 0
			c := tx.Cursor(bucket)
			for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
				if !bytes.HasPrefix(k, record.NamePrefix(record.Generation(box).Root().Item())) { // the root of the container
					got++
				}
			}
			if got != 2*of {
				t.Errorf("%s: %d records of the two other items, want %d", bucket, got, 2*of)
			}
		}
		for i, c := range contents {
			if n, removed := record.References(tx, c.ID), i/3 == 1; (n == 0) != removed {
				t.Errorf("content %d has %d references; removed: %v", i, n, removed)
			}
		}
		check.OK(t, RemoveItem(tx, record.Inode(101).Item())) // nothing is left
		for bucket, key := range map[store.Bucket][]byte{
			record.BlobsBucket:   record.BlobKey(record.Inode(200).Item(), 1),
			record.PendingBucket: record.PendingKey(record.Inode(201).Item()),
			record.CopiesBucket:  record.PendingKey(record.Inode(202).Item())} {
			tx.Put(bucket, key, []byte{9})
			it := map[store.Bucket]record.Inode{record.BlobsBucket: 200, record.PendingBucket: 201, record.CopiesBucket: 202}
			if err := RemoveItem(tx, it[bucket].Item()); err == nil {
				t.Errorf("%s: a damaged record was removed", bucket)
			}
		}
		return nil
	}))
}

// That something is to be removed is stored as garbage and in the record.
func TestDiscard(t *testing.T) {
	t.Parallel()
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		garbage := func(kind byte, id uint64) []byte { return tx.Get(record.GarbageBucket, record.GarbageKey(kind, id)) }
		check.OK(t, create(tx, "d/", root()))
		p := check.Must(Find(tx, box, "d", root()))(t)
		n := p.Item.Inode()
		check.OK(t, Discard(tx, n))
		var b record.Blob
		check.OK(t, record.LoadBlob(tx, p.Item, record.BaseSlot, &b))
		if !b.Node.Removed || garbage(record.GarbageNode, uint64(n)) == nil {
			t.Errorf("the record says %v, the garbage %x", b.Node.Removed, garbage(record.GarbageNode, uint64(n)))
		}
		check.OK(t, Discard(tx, 77)) // uncommitted blocks alone have no record
		if garbage(record.GarbageNode, 77) == nil {
			t.Error("an inode without a record is no garbage")
		}
		record.PutBlob(tx, record.Inode(78).Item(), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
		if err := Discard(tx, 78); !errors.Is(err, record.ErrMalformed) {
			t.Errorf("a record without a node: %v", err)
		}
		tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(79).Item(), record.BaseSlot), []byte{9})
		if err := Discard(tx, 79); err == nil {
			t.Error("a damaged record was discarded")
		}
		check.OK(t, DiscardContents(tx, "acc", 5))
		if v := garbage(record.GarbageContainer, 5); string(v) != "\x01acc" {
			t.Errorf("the contents of a flat container: %q", v)
		}
		check.OK(t, DiscardContents(tx, "acc", box))
		if garbage(record.GarbageNode, uint64(record.Generation(box).Root())) == nil {
			t.Error("the root of a tree is no garbage")
		}
		return nil
	}))
}

// What a request does not name comes from the caller, the directory and the defaults.
func TestNodesOfNewItems(t *testing.T) {
	t.Parallel()
	mode, umask := posix.Mode(0o666), posix.Mode(0o007)
	alice := &posix.Caller{ID: "alice"}
	for _, c := range []struct {
		name   string
		caller *posix.Caller
		want   *NewNode
		owner  string
		group  string
		mode   posix.Mode
	}{
		{"file of the superuser", nil, nil, posix.SuperUser, "staff", 0o640},
		{"directory", nil, &NewNode{Directory: true}, posix.SuperUser, "staff", 0o750},
		{"file of a caller", alice, nil, "alice", "staff", 0o640},
		{"owner and group", alice, &NewNode{Owner: "bob", Group: "others"}, "bob", "others", 0o640},
		{"mode", nil, &NewNode{Mode: &mode}, posix.SuperUser, "staff", 0o640},
		{"umask", nil, &NewNode{Umask: &umask}, posix.SuperUser, "staff", 0o660},
		{"mode and umask", nil, &NewNode{Mode: &mode, Umask: &umask}, posix.SuperUser, "staff", 0o660},
	} {
		parent := record.NewRoot(posix.SuperUser, "a\x00box")
		parent.Node.Group = "staff"
		l := Link{Caller: c.caller, New: c.want}
		n := check.Must(l.newNode(&parent, "name", c.want != nil && c.want.Directory, c.want))(t)
		if n.Owner != c.owner || n.Group != c.group || n.Access.Mode() != c.mode || n.Name != "name" {
			t.Errorf("%s: %s, %s, %o; want %s, %s, %o", c.name, n.Owner, n.Group, n.Access.Mode(), c.owner, c.group, c.mode)
		}
	}
}

// A walk over records that are damaged, or from a position that is a file, ends with an error or in its place.
func TestWalksFromPlaces(t *testing.T) {
	t.Parallel()
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		for _, path := range []string{"a", "b/", "b/c", "b/d/", "b/d/e", "b.x", "c"} {
			check.OK(t, create(tx, path, root()))
		}
		// The order is that of segments: what is in b comes before b.x.
		for from, want := range map[string]string{"a/x": "b/ b/c b/d/ b/d/e b.x c", "b/c/x": "b/d/ b/d/e b.x c",
			"b/d/f": "b.x c", "b/d/e": "b/d/e b.x c", "b/zz/y": "b.x c", "d": ""} {
			if got := strings.Join(walk(t, tx, from), " "); got != want {
				t.Errorf("from %q: %q, want %q", from, got, want)
			}
		}
		below := check.Must(Find(tx, box, "b", root()))(t).Item.Inode()
		tx.Put(record.NamesBucket, record.EntryKey(below, "c"), []byte{9})
		for _, from := range []string{"", "b/c/x"} {
			w := Walk{Tx: tx}
			err := w.Begin(record.Generation(box).Root(), "", "", from)
			for more := true; err == nil && more; {
				more, err = w.Next()
				w.Descend = true
			}
			if err == nil {
				t.Errorf("from %q: a damaged entry was passed", from)
			}
		}
		return nil
	}))
}

// A caller whom lists limit passes and changes what they allow, and no list limits another caller.
func TestPermissionsOnTheWay(t *testing.T) {
	t.Parallel()
	alice := &posix.Caller{ID: "alice", Checked: true}
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		access := func(n record.Inode, mode posix.Mode) {
			var b record.Blob
			check.OK(t, record.LoadBlob(tx, n.Item(), record.BaseSlot, &b))
			b.Node.Access = posix.Of(mode)
			record.PutBlob(tx, n.Item(), record.BaseSlot, &b)
		}
		check.OK(t, create(tx, "d/file", root()))
		top := record.Generation(box).Root()
		d := check.Must(Find(tx, box, "d", root()))(t).Item.Inode()
		for _, c := range []struct {
			top, d       posix.Mode
			find, create error
		}{
			{0o755, 0o755, nil, record.ErrAccess}, {0o755, 0o757, nil, nil}, {0o755, 0o752, record.ErrAccess, record.ErrAccess},
			{0o754, 0o757, record.ErrAccess, record.ErrAccess}, {0o751, 0o751, nil, record.ErrAccess},
		} {
			access(top, c.top)
			access(d, c.d)
			if _, err := Find(tx, box, "d/file", alice); !errors.Is(err, c.find) || (err == nil) != (c.find == nil) {
				t.Errorf("%o and %o, find: %v, want %v", c.top, c.d, err, c.find)
			}
			if err := create(tx, "d/of alice", alice); !errors.Is(err, c.create) || (err == nil) != (c.create == nil) {
				t.Errorf("%o and %o, create: %v, want %v", c.top, c.d, err, c.create)
			}
			if _, err := Find(tx, box, "d/file", root()); err != nil {
				t.Errorf("%o and %o: a caller without limits: %v", c.top, c.d, err)
			}
		}
		if _, err := Permit(tx, 999, root(), posix.Read); !errors.Is(err, record.ErrBlobNotFound) {
			t.Errorf("an inode that is missing: %v", err)
		}
		// A list that lacks an entry is refused, for an item and for the directories on its way.
		entries := check.Must(posix.ParseEntries("user::rwx", false))(t)
		p := check.Must(Find(tx, box, "new", root()))(t)
		l := Link{Place: &p, Tx: tx, At: 1, New: &NewNode{Entries: &entries}}
		if err := l.Make(&record.Blob{Kind: record.BlockBlob}); !errors.Is(err, ErrACL) {
			t.Errorf("a list of the owner alone: %v", err)
		}
		return nil
	}))
	old := &record.Node{Owner: "bob", Group: "staff"}
	parent := record.NewRoot(posix.SuperUser, "a\x00box")
	mode := posix.Mode(0o777)
	for name, c := range map[string]struct {
		want *NewNode
		err  error
	}{"nothing": {&NewNode{}, nil}, "owner": {&NewNode{Owner: "alice"}, record.ErrAccess},
		"group": {&NewNode{Group: "others"}, record.ErrAccess}, "mode": {&NewNode{Mode: &mode}, nil},
		"list": {&NewNode{Entries: &posix.Entries{}}, record.ErrAccess}} {
		l := Link{Caller: alice}
		if err := l.mayReplaceAccess(&parent, old, c.want); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s of a file that is overwritten: %v, want %v", name, err, c.err)
		}
	}
	// Who may change the owner and the group may do what changes neither, and give nothing away.
	old = &record.Node{Owner: "alice", Group: "staff"}
	l := Link{Caller: alice, Chown: Grant{Held: true, By: alice}}
	if err := l.mayReplaceAccess(&parent, old, &NewNode{Group: "staff"}); err != nil {
		t.Errorf("the group that it has: %v", err)
	}
	if err := l.mayReplaceAccess(&parent, old, &NewNode{Owner: "bob"}); !errors.Is(err, record.ErrAccess) {
		t.Errorf("another owner: %v", err)
	}
}

// A walk of a directory from a position outside of it has all of it, or nothing; from one in a directory that the
// caller may not list, it fails.
func TestWalksFromOutside(t *testing.T) {
	t.Parallel()
	check.OK(t, open(t).Update(func(tx *store.Tx) error {
		for _, path := range []string{"b/", "b/0", "b/z", "b/closed/", "b/closed/file"} {
			check.OK(t, create(tx, path, root()))
		}
		b := check.Must(Find(tx, box, "b", root()))(t).Item.Inode()
		for from, want := range map[string]string{"a": "b/0", "a/zz": "b/0", "": "b/0", "c": "", "b.x": ""} {
			w := Walk{Tx: tx}
			check.OK(t, w.Begin(b, "b/", "", from))
			more, err := w.Next()
			check.OK(t, err)
			if more != (want != "") || more && w.Path != want {
				t.Errorf("from %q: %q, %v; want %q", from, w.Path, more, want)
			}
		}
		closed := check.Must(Find(tx, box, "b/closed", root()))(t).Item
		var rec record.Blob
		check.OK(t, record.LoadBlob(tx, closed, record.BaseSlot, &rec))
		rec.Node.Access = posix.Of(0o750)
		record.PutBlob(tx, closed, record.BaseSlot, &rec)
		w := Walk{Tx: tx, Caller: &posix.Caller{ID: "alice", Checked: true}}
		if err := w.Begin(b, "b/", "", "b/closed/file"); !errors.Is(err, record.ErrAccess) {
			t.Errorf("from below a directory that is closed: %v", err)
		}
		return nil
	}))
}
