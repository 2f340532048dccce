package maintain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// now is the time of the tests.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is the maintenance of a node without blobs.
type rig struct {
	*Maintenance
	t       *testing.T
	expired []Expired
}

// freedByExpiry is the number of bytes that an expired blob of the rig frees.
const freedByExpiry = 7

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	node := check.Must(replica.Open(replica.Config{Path: filepath.Join(dir, "blobs.db"),
		Extents: filepath.Join(dir, "extents"), Store: store.Options{Ephemeral: true}}))(t)
	t.Cleanup(func() { check.OK(t, node.Close()) })
	r := &rig{t: t}
	r.Maintenance = New(node, func(_ *store.Tx, x *Expired) (int64, error) {
		r.expired = append(r.expired, *x)
		return freedByExpiry, nil
	})
	return r
}

// update runs fn in a transaction. It must not end the test, or the database could not be closed.
func (r *rig) update(fn func(tx *store.Tx)) {
	r.t.Helper()
	check.OK(r.t, r.node.DB.Update(func(tx *store.Tx) error { fn(tx); return nil }))
}

// keys returns the number of keys in a bucket.
func (r *rig) keys(b store.Bucket) (n int) {
	r.t.Helper()
	check.OK(r.t, r.node.DB.View(func(tx *store.Tx) error {
		n = 0
		c := tx.Cursor(b)
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			n++
		}
		return nil
	}))
	return n
}

// want checks the number of keys in buckets.
func (r *rig) want(what string, keys map[store.Bucket]int) {
	r.t.Helper()
	for b, want := range keys {
		if got := r.keys(b); got != want {
			r.t.Errorf("%s: %d keys in %s, want %d", what, got, b, want)
		}
	}
}

// has reports whether a bucket has a key.
func (r *rig) has(b store.Bucket, k []byte) (there bool) {
	r.t.Helper()
	check.OK(r.t, r.node.DB.View(func(tx *store.Tx) error { there = tx.Get(b, k) != nil; return nil }))
	return there
}

// putBlocks stores the blocks of a set.
func putBlocks(tx *store.Tx, set uint64, n int) {
	for i := range n {
		tx.Put(record.BlocksBucket, record.BlockKey(set, fmt.Sprintf("%04d", i)),
			record.EncodeBlock(content.Piece{Length: 1}))
	}
}

// A deleted blob is there until its retention is over, to the tick, and gives up its content then.
func TestDeletedBlobsArePurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ticks.Of(now)
	keys := map[string][]byte{}
	r.update(func(tx *store.Tx) {
		for name, deleted := range map[string]ticks.Ticks{"due": at - record.Day, "later": at - record.Day + 1} {
			b := record.Blob{Kind: record.BlockBlob, Deleted: deleted, KeptDays: 1, Length: 5, Content: record.NewContent(tx)}
			it := record.Generation(5).Item(name)
			record.PutBlob(tx, it, 1, &b)
			keys[name] = record.BlobKey(it, 1)
			tx.Put(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), keys[name]), nil)
		}
		// A blob that was restored has left its entry behind.
		tx.Put(record.DeletedBlobsBucket, record.PurgeKey(at, record.BlobKey(record.Generation(5).Item("none"), 1)), nil)
	})
	check.OK(t, r.Collect(t.Context(), now))
	if r.has(record.BlobsBucket, keys["due"]) || !r.has(record.BlobsBucket, keys["later"]) {
		t.Error("the blob that is due is there, or the other one is not")
	}
	r.want("after the purge", map[store.Bucket]int{record.DeletedBlobsBucket: 1, record.ContentBucket: 1,
		record.GarbageBucket: 0})
	if got := r.node.Freed.Load(); got != 5 {
		t.Errorf("%d bytes were freed, want 5", got)
	}
	check.OK(t, r.Collect(t.Context(), now.Add(100*time.Nanosecond)))
	r.want("a tick later", map[store.Bucket]int{record.DeletedBlobsBucket: 0, record.BlobsBucket: 0})
}

// What cannot be read stays, and is reported.
func TestDamagedRecordsAreNotPurged(t *testing.T) {
	t.Parallel()
	at, bad := ticks.Of(now), []byte{9}
	item := record.Generation(5).Item("b")
	for name, c := range map[string]struct {
		bucket store.Bucket
		key    []byte
		put    func(tx *store.Tx)
	}{
		"deleted blob": {record.BlobsBucket, record.BlobKey(item, 1), func(tx *store.Tx) {
			tx.Put(record.BlobsBucket, record.BlobKey(item, 1), bad)
			tx.Put(record.DeletedBlobsBucket, record.PurgeKey(at, record.BlobKey(item, 1)), nil)
		}},
		"entry of a deleted blob": {record.DeletedBlobsBucket, []byte("short"), func(tx *store.Tx) {
			tx.Put(record.DeletedBlobsBucket, []byte("short"), nil)
		}},
		"entry of a deleted blob without a key": {record.DeletedBlobsBucket, record.PurgeKey(at, nil), func(tx *store.Tx) {
			tx.Put(record.DeletedBlobsBucket, record.PurgeKey(at, nil), nil)
		}},
		"deleted path whose record is damaged": {record.TrashBucket, record.TrashKey(20, "p", 1), func(tx *store.Tx) {
			tx.Put(record.TrashBucket, record.TrashKey(20, "p", 1), (&record.Trash{Inode: 30, Deleted: 1}).Encode())
			tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(30).Item(), record.BaseSlot), bad)
		}},
		"directory in a removed one": {record.NamesBucket, record.EntryKey(30, "x"), func(tx *store.Tx) {
			tx.Put(record.NamesBucket, record.EntryKey(30, "x"), record.Entry{Inode: 31, Kind: record.EntryDirectory}.Encode())
			tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(31).Item(), record.BaseSlot), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 30), []byte{record.Version})
		}},
		"removed file": {record.BlobsBucket, record.BlobKey(record.Inode(30).Item(), record.BaseSlot), func(tx *store.Tx) {
			tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(30).Item(), record.BaseSlot), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 30), []byte{record.Version})
		}},
		"deleted container": {record.DeletedContainersBucket, record.DeletedContainerKey("a", "box", 1), func(tx *store.Tx) {
			tx.Put(record.DeletedContainersBucket, record.DeletedContainerKey("a", "box", 1), bad)
		}},
		"key of a deleted container": {record.DeletedContainersBucket, []byte("a"), func(tx *store.Tx) {
			tx.Put(record.DeletedContainersBucket, []byte("a"), (&record.Container{Generation: 5, Deleted: 1}).Encode())
		}},
		"deleted path": {record.TrashBucket, record.TrashKey(7, "p", 1), func(tx *store.Tx) {
			tx.Put(record.TrashBucket, record.TrashKey(7, "p", 1), bad)
		}},
		"uncommitted blocks": {record.PendingBucket, record.PendingKey(item), func(tx *store.Tx) {
			tx.Put(record.PendingBucket, record.PendingKey(item), bad)
		}},
		"key of uncommitted blocks": {record.PendingBucket, []byte("k"), func(tx *store.Tx) {
			tx.Put(record.PendingBucket, []byte("k"), record.Pending{Set: 3, Last: 1}.Encode())
		}},
		"file with uncommitted blocks": {record.NamesBucket, record.EntryKey(20, "file"), func(tx *store.Tx) {
			tx.Put(record.NamesBucket, record.EntryKey(20, "file"), record.Entry{Inode: 30, Kind: record.EntryFile}.Encode())
			tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(30).Item(), record.BaseSlot), bad)
			tx.Put(record.PendingBucket, record.PendingKey(record.Inode(30).Item()),
				record.Pending{Set: 4, Last: 1, Parent: 20, Name: "file"}.Encode())
		}},
		"garbage": {record.GarbageBucket, record.GarbageKey('x', 1), func(tx *store.Tx) {
			tx.Put(record.GarbageBucket, record.GarbageKey('x', 1), bad)
		}},
		"key of garbage": {record.GarbageBucket, []byte("c"), func(tx *store.Tx) {
			tx.Put(record.GarbageBucket, []byte("c"), bad)
		}},
		"blob of a removed container": {record.BlobsBucket, record.BlobKey(item, 1), func(tx *store.Tx) {
			tx.Put(record.BlobsBucket, record.BlobKey(item, 1), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, 5), []byte{record.Version, 'a'})
		}},
		"blocks of a removed container": {record.PendingBucket, record.PendingKey(item), func(tx *store.Tx) {
			tx.Put(record.PendingBucket, record.PendingKey(item), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, 5), []byte{record.Version, 'a'})
		}},
		"copy in a removed container": {record.CopiesBucket, record.PendingKey(item), func(tx *store.Tx) {
			tx.Put(record.CopiesBucket, record.PendingKey(item), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, 5), []byte{record.Version, 'a'})
		}},
		"entry in a removed directory": {record.NamesBucket, record.EntryKey(30, "x"), func(tx *store.Tx) {
			tx.Put(record.NamesBucket, record.EntryKey(30, "x"), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 30), []byte{record.Version})
		}},
		"deleted path of a removed container": {record.TrashBucket, record.TrashKey(30, "p", 1), func(tx *store.Tx) {
			tx.Put(record.TrashBucket, record.TrashKey(30, "p", 1), bad)
			tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 30), []byte{record.Version})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.update(c.put)
			if err := r.Tidy(t.Context(), now); err == nil {
				t.Error("no error")
			}
			if !r.has(c.bucket, c.key) {
				t.Error("it was removed")
			}
		})
	}
}

// Deleted containers and their contents stay until the retention is over.
func TestDeletedContainersArePurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ticks.Of(now)
	r.update(func(tx *store.Tx) {
		for gen, deleted := range map[record.Generation]ticks.Ticks{5: at - record.Day, 6: at - record.Day + 1} {
			c := record.Container{Generation: gen, Deleted: deleted, KeptDays: 1}
			tx.Put(record.DeletedContainersBucket, record.DeletedContainerKey("a", "box", deleted), c.Encode())
			record.PutBlob(tx, gen.Item("b"), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
		}
	})
	check.OK(t, r.Collect(t.Context(), now))
	r.want("collecting alone", map[store.Bucket]int{record.DeletedContainersBucket: 2})
	check.OK(t, r.Tidy(t.Context(), now))
	r.want("after the purge", map[store.Bucket]int{record.DeletedContainersBucket: 1, record.BlobsBucket: 1})
	if !r.has(record.BlobsBucket, record.BlobKey(record.Generation(6).Item("b"), record.BaseSlot)) {
		t.Error("the contents of the other container are gone")
	}
}

// A container that is removed takes its blobs, index entries, blocks and copies with it, and nothing of another one,
// however much is in it.
func TestContentsOfAContainerAreCollected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = 70 // blocks that are left to a round of their own
	r.update(func(tx *store.Tx) {
		for _, gen := range []record.Generation{5, 6} {
			for i := range sweep.Batch + 2 {
				record.PutBlob(tx, gen.Item(fmt.Sprintf("many%05d", i)), record.BaseSlot, &record.Blob{Kind: record.BlockBlob})
			}
			it := gen.Item("blob")
			record.PutBlob(tx, it, record.BaseSlot, &record.Blob{Kind: record.BlockBlob, Content: record.NewContent(tx),
				Tags: []record.Tag{{Key: "k", Value: "v"}}})
			tx.Put(record.TagsBucket, record.TagsKey("a", it), []byte{1})
			// Tags of a version are in no index: the entry of the base blob is not its own.
			version := record.Blob{Kind: record.BlockBlob, Tags: []record.Tag{{Key: "k", Value: "v"}}, Deleted: 9,
				KeptDays: 1, Content: record.NewContent(tx)}
			record.PutBlob(tx, it, 3, &version)
			tx.Put(record.DeletedBlobsBucket, record.PurgeKey(1<<62, record.BlobKey(it, 3)), nil)
			tx.Put(record.DeletedBlobsBucket, record.PurgeKey(version.PurgeAt(), record.BlobKey(it, 3)), nil)
			set := uint64(gen) * 100
			tx.Put(record.PendingBucket, record.PendingKey(it), record.Pending{Set: set, Count: many,
				Last: ticks.Of(now)}.Encode())
			putBlocks(tx, set, many)
			tx.Put(record.CopiesBucket, record.PendingKey(it), (&record.CopyJob{Set: set + 1, Blocks: 2}).Encode())
			putBlocks(tx, set+1, 2)
		}
		tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, 5), []byte{record.Version, 'a'})
	})
	before := map[store.Bucket]int{}
	for _, b := range []store.Bucket{record.BlobsBucket, record.TagsBucket, record.ContentBucket, record.PendingBucket,
		record.BlocksBucket, record.CopiesBucket, record.DeletedBlobsBucket} {
		before[b] = r.keys(b)
	}
	check.OK(t, r.collectGarbage(t.Context()))
	after := map[store.Bucket]int{record.GarbageBucket: 0}
	for b, n := range before {
		after[b] = n / 2
	}
	// The entry that was put for no record of its time is not that of the blob.
	after[record.DeletedBlobsBucket] = before[record.DeletedBlobsBucket] - 1
	r.want("of the other container", after)
	if !r.has(record.TagsBucket, record.TagsKey("a", record.Generation(6).Item("blob"))) {
		t.Error("the other container has lost an index entry")
	}
}

// A directory that is removed takes what is below it, to any depth, and a root what was deleted in the container.
func TestContentsOfADirectoryAreCollected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := func(tx *store.Tx, n, parent record.Inode, name string, directory bool) {
		kind := record.EntryFile
		if directory {
			kind = record.EntryDirectory
		}
		tx.Put(record.NamesBucket, record.EntryKey(parent, name), record.Entry{Inode: n, Kind: kind}.Encode())
		record.PutBlob(tx, n.Item(), record.BaseSlot, &record.Blob{Kind: record.BlockBlob,
			Node: &record.Node{Directory: directory, Parent: parent, Name: name}})
	}
	r.update(func(tx *store.Tx) {
		put(tx, 30, 20, "d", true)
		put(tx, 31, 30, "file", false)
		put(tx, 32, 30, "below", true)
		put(tx, 33, 32, "file", false)
		put(tx, 40, 20, "other", true)
		put(tx, 41, 40, "file", false)
		tx.Delete(record.NamesBucket, record.EntryKey(20, "d"))
		tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 30), []byte{record.Version})
		put(tx, 51, 50, "trash", true)
		put(tx, 52, 51, "file", false)
		tx.Delete(record.NamesBucket, record.EntryKey(50, "trash"))
		tx.Put(record.TrashBucket, record.TrashKey(50, "trash", 1), (&record.Trash{Inode: 51, Deleted: ticks.Of(now),
			Days: 9, Kind: record.EntryDirectory}).Encode())
		tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, 50), []byte{record.Version})
	})
	check.OK(t, r.collectGarbage(t.Context()))
	r.want("after the collection", map[store.Bucket]int{record.NamesBucket: 2, record.BlobsBucket: 2,
		record.TrashBucket: 0, record.GarbageBucket: 0})
	for _, n := range []record.Inode{40, 41} {
		if !r.has(record.BlobsBucket, record.BlobKey(n.Item(), record.BaseSlot)) {
			t.Errorf("inode %d is gone", n)
		}
	}
}

// What was deleted in a tree stays until its retention is over.
func TestTrashIsPurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ticks.Of(now)
	r.update(func(tx *store.Tx) {
		for n, deleted := range map[record.Inode]ticks.Ticks{30: at - record.Day, 31: at - record.Day + 1} {
			record.PutBlob(tx, n.Item(), record.BaseSlot, &record.Blob{Kind: record.BlockBlob, Node: &record.Node{}})
			tx.Put(record.TrashBucket, record.TrashKey(20, "file", uint64(n)), (&record.Trash{Inode: n, Deleted: deleted,
				Days: 1, Kind: record.EntryFile}).Encode())
		}
	})
	check.OK(t, r.Tidy(t.Context(), now))
	if r.has(record.TrashBucket, record.TrashKey(20, "file", 30)) || r.keys(record.TrashBucket) != 1 ||
		r.keys(record.BlobsBucket) != 1 {
		t.Error("what is due is there, or what is not is gone")
	}
}

// Uncommitted blocks are kept for a week after the last of them. In a tree, a file of such blocks alone goes with them.
func TestAbandonedBlocksExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	week := ticks.Of(now.Add(-7 * 24 * time.Hour))
	r.update(func(tx *store.Tx) {
		for name, last := range map[string]ticks.Ticks{"due": week, "later": week + 1} {
			set := uint64(last)
			tx.Put(record.PendingBucket, record.PendingKey(record.Generation(5).Item(name)),
				record.Pending{Set: set, Last: last, Count: 2}.Encode())
			putBlocks(tx, set, 2)
		}
		tx.Put(record.NamesBucket, record.EntryKey(20, "file"), record.Entry{Inode: 30, Kind: record.EntryFile}.Encode())
		tx.Put(record.PendingBucket, record.PendingKey(record.Inode(30).Item()),
			record.Pending{Set: 4, Last: week, Parent: 20, Name: "file"}.Encode())
	})
	check.OK(t, r.Tidy(t.Context(), now))
	r.want("after a week", map[store.Bucket]int{record.PendingBucket: 1, record.BlocksBucket: 2, record.NamesBucket: 0})
	if !r.has(record.PendingBucket, record.PendingKey(record.Generation(5).Item("later"))) {
		t.Error("the blocks that are not due are gone")
	}
}

// A blob expires at its time, to the tick, if its record says so and it can be reached.
func TestBlobsExpire(t *testing.T) {
	t.Parallel()
	at := ticks.Of(now)
	hour := at + record.Day/24
	for name, c := range map[string]struct {
		entry   ticks.Ticks
		blob    *record.Blob
		gen     record.Generation
		expires bool
		next    ticks.Ticks // of the entry that is left, 0 for none
	}{
		"due":     {at, &record.Blob{Expires: at}, 5, true, 0},
		"later":   {at + 1, &record.Blob{Expires: at + 1}, 5, false, at + 1},
		"moved":   {at, &record.Blob{Expires: at + 1}, 5, false, 0},
		"never":   {at, &record.Blob{}, 5, false, 0},
		"deleted": {at, &record.Blob{Expires: at, Deleted: 1}, 5, false, 0},
		"gone":    {at, nil, 5, false, 0},
		"being copied": {at, &record.Blob{Expires: at, Copy: record.CopyState{ID: "id", Status: record.CopyPending}}, 5,
			false, hour},
		"of another container": {at, &record.Blob{Expires: at}, 6, false, hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			it := c.gen.Item("b")
			key := record.BlobKey(it, record.BaseSlot)
			r.update(func(tx *store.Tx) {
				record.PutContainer(tx, "a", "box", &record.Container{Generation: 5})
				if c.blob != nil {
					c.blob.Kind = record.BlockBlob
					record.PutBlob(tx, it, record.BaseSlot, c.blob)
				}
				tx.Put(record.ExpiringBucket, record.ExpiryKey(c.entry, key), record.ContainerKey("a", "box"))
			})
			check.OK(t, r.ExpireBlobs(t.Context(), now))
			if got := len(r.expired) == 1; got != c.expires {
				t.Fatalf("expired: %+v", r.expired)
			}
			if c.expires {
				if x := r.expired[0]; x != (Expired{"a", "box", "b", it, now}) {
					t.Errorf("expired %+v", x)
				}
				if r.node.Freed.Load() != freedByExpiry {
					t.Errorf("freed %d bytes", r.node.Freed.Load())
				}
			}
			if n := r.keys(record.ExpiringBucket); (n == 1) != (c.next != 0) || n > 1 {
				t.Fatalf("%d entries are left", n)
			}
			if c.next != 0 && !r.has(record.ExpiringBucket, record.ExpiryKey(c.next, key)) {
				t.Error("the entry that is left is for another time")
			}
		})
	}
}

// An entry of the expiry list that cannot be read is reported, and stays.
func TestDamagedExpiry(t *testing.T) {
	t.Parallel()
	at := ticks.Of(now)
	key := record.BlobKey(record.Generation(5).Item("b"), record.BaseSlot)
	for name, put := range map[string]func(tx *store.Tx){
		"key": func(tx *store.Tx) { tx.Put(record.ExpiringBucket, record.ExpiryKey(at, []byte("short")), nil) },
		"container": func(tx *store.Tx) {
			tx.Put(record.ExpiringBucket, record.ExpiryKey(at, key), []byte("no container"))
		},
		"blob": func(tx *store.Tx) {
			tx.Put(record.ExpiringBucket, record.ExpiryKey(at, key), record.ContainerKey("a", "box"))
			tx.Put(record.BlobsBucket, key, []byte{9})
		},
		"directory of a file": func(tx *store.Tx) {
			it := record.Inode(30).Item()
			record.PutBlob(tx, it, record.BaseSlot, &record.Blob{Kind: record.BlockBlob, Expires: at,
				Node: &record.Node{Parent: 20, Name: "file"}})
			tx.Put(record.NamesBucket, record.EntryKey(20, "file"), record.Entry{Inode: 30, Kind: record.EntryFile}.Encode())
			tx.Put(record.BlobsBucket, record.BlobKey(record.Inode(20).Item(), record.BaseSlot), []byte{9})
			tx.Put(record.ExpiringBucket, record.ExpiryKey(at, record.BlobKey(it, record.BaseSlot)),
				record.ContainerKey("a", "box"))
		},
	} {
		r := newRig(t)
		r.update(put)
		if err := r.ExpireBlobs(t.Context(), now); err == nil || r.keys(record.ExpiringBucket) != 1 {
			t.Errorf("%s: %v, %d entries", name, err, r.keys(record.ExpiringBucket))
		}
	}
}

// A file in a tree expires by its path, also after a rename; one that was deleted is looked at again in an hour.
func TestFilesExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ticks.Of(now)
	const gen = record.TreeBit | 20
	entry := func(n record.Inode) []byte { return record.ExpiryKey(at, record.BlobKey(n.Item(), record.BaseSlot)) }
	r.update(func(tx *store.Tx) {
		record.PutContainer(tx, "a", "new", &record.Container{Generation: gen})
		root := record.NewRoot("$superuser", "a\x00new")
		record.PutBlob(tx, record.Generation(gen).Root().Item(), record.BaseSlot, &root)
		for n, name := range map[record.Inode]string{30: "file", 31: "deleted"} {
			parent := record.Generation(gen).Root()
			if name == "deleted" {
				parent = 99
			}
			tx.Put(record.NamesBucket, record.EntryKey(parent, name), record.Entry{Inode: n, Kind: record.EntryFile}.Encode())
			record.PutBlob(tx, n.Item(), record.BaseSlot, &record.Blob{Kind: record.BlockBlob, Expires: at,
				Node: &record.Node{Parent: parent, Name: name}})
			tx.Put(record.ExpiringBucket, entry(n), record.ContainerKey("a", "old"))
		}
	})
	err := r.ExpireBlobs(t.Context(), now)
	if len(r.expired) != 1 || r.expired[0].Container != "new" || r.expired[0].Blob != "file" {
		t.Errorf("expired %+v, %v", r.expired, err)
	}
}

// Reads are written into the records once a day, and never make a time older.
func TestAccessTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ticks.Of(now)
	accessed := func(name string) (got ticks.Ticks) {
		check.OK(t, r.node.DB.View(func(tx *store.Tx) error {
			var b record.Blob
			err := record.LoadBlob(tx, record.Generation(5).Item(name), record.BaseSlot, &b)
			got = b.Accessed
			return err
		}))
		return got
	}
	key := func(name string) []byte { return record.BlobKey(record.Generation(5).Item(name), record.BaseSlot) }
	put := func(name string, accessed ticks.Ticks) {
		r.update(func(tx *store.Tx) {
			record.PutBlob(tx, record.Generation(5).Item(name), record.BaseSlot,
				&record.Blob{Kind: record.BlockBlob, Accessed: accessed})
		})
	}
	put("a day old", at-record.Day)
	put("younger", at-record.Day+1)
	put("read later", at-record.Day)
	for _, name := range []string{"a day old", "read later", "gone"} {
		r.Accesses.Note(key(name), &record.Blob{Accessed: at - record.Day}, at)
	}
	r.Accesses.Note(key("younger"), &record.Blob{Accessed: at - record.Day + 1}, at)
	put("read later", at+5)
	check.OK(t, r.FlushAccesses(t.Context()))
	for name, want := range map[string]ticks.Ticks{"a day old": at, "younger": at - record.Day + 1, "read later": at + 5} {
		if got := accessed(name); got != want {
			t.Errorf("%s: %d, want %d", name, got-at, want-at)
		}
	}
	if r.has(record.BlobsBucket, key("gone")) {
		t.Error("a blob that was deleted is there again")
	}
	if left := r.Accesses.take(); len(left) != 0 {
		t.Errorf("%d reads are noted after they were written", len(left))
	}

	// More than one transaction takes.
	const n = 2*accessBatch + 1
	for i := range n {
		put(fmt.Sprint(i), 0)
		r.Accesses.Note(key(fmt.Sprint(i)), &record.Blob{}, at)
	}
	groups, updates := r.node.DB.Commits()
	check.OK(t, r.FlushAccesses(t.Context()))
	for i := range n {
		if got := accessed(fmt.Sprint(i)); got != at {
			t.Fatalf("blob %d: %d", i, got)
		}
	}
	if g, u := r.node.DB.Commits(); u-updates != 3 || g == groups {
		t.Errorf("%d updates, want 3", u-updates)
	}

	r.Accesses.Note(key("a day old"), &record.Blob{}, at+9)
	r.update(func(tx *store.Tx) { tx.Put(record.BlobsBucket, key("a day old"), []byte{9}) })
	if err := r.FlushAccesses(t.Context()); err == nil {
		t.Error("a damaged record was written")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.Accesses.Note(key("1"), &record.Blob{}, at+9)
	if err := r.FlushAccesses(ended); !errors.Is(err, context.Canceled) || accessed("1") != at {
		t.Errorf("after the end: %v", err)
	}

	r.Accesses.keys = make(map[string]ticks.Ticks, maxAccessed)
	for i := range maxAccessed {
		r.Accesses.keys[fmt.Sprint(i)] = at
	}
	if r.Accesses.Note([]byte("one more"), &record.Blob{}, at); len(r.Accesses.take()) != maxAccessed {
		t.Error("more reads are noted than memory has room for")
	}
}

// A compaction of a folder removes what was deleted, keeps what is referred to, and says how much it moves.
func TestCompactFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, extents := filepath.Join(dir, "blobs.db"), filepath.Join(dir, "extents")
	open := func() *replica.Node {
		return check.Must(replica.Open(replica.Config{Path: path, Extents: extents, Grace: -1}))(t)
	}
	kept := bytes.Repeat([]byte("kept"), 100_000)
	piece := func(n *replica.Node, p []byte) content.Piece {
		w := n.Extents.NewWriter(int64(len(p)))
		defer w.Close()
		check.Must(w.Write(p))(t)
		return content.Piece{Length: int64(len(p)), Slices: check.Must(w.Commit())(t)}
	}
	node := open()
	ref := piece(node, kept)
	waste := piece(node, bytes.Repeat([]byte("waste"), 100_000))
	check.OK(t, node.DB.Update(func(tx *store.Tx) error {
		b := record.Blob{Kind: record.BlockBlob}
		b.Content, b.Length = record.LayOut(tx, []content.Piece{ref})
		record.PutBlob(tx, record.Generation(5).Item("b"), record.BaseSlot, &b)
		gone := record.Blob{Kind: record.BlockBlob}
		gone.Content, gone.Length = record.LayOut(tx, []content.Piece{waste})
		record.PutBlob(tx, record.Generation(6).Item("b"), record.BaseSlot, &gone)
		tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, 6), []byte{record.Version, 'a'})
		return nil
	}))
	check.OK(t, node.Close())
	var moved, total []int64
	before, after, err := CompactFolder(t.Context(), path, extents, nil, 0, func(m, all int64) {
		moved, total = append(moved, m), append(total, all)
	})
	check.OK(t, err)
	if before < 900_000 || after > before/2 || after < int64(len(kept)) {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	if len(moved) == 0 || !slices.IsSorted(moved) || moved[len(moved)-1] < int64(len(kept)) ||
		total[len(total)-1] < moved[len(moved)-1] {
		t.Errorf("moved %d of %d", moved, total)
	}
	node = open()
	refs := 0
	check.OK(t, node.References(t.Context(), func(extent.Ref) bool { refs++; return true }))
	if refs != len(ref.Slices) {
		t.Errorf("%d slices are referred to, want %d", refs, len(ref.Slices))
	}
	check.OK(t, node.Close())
	if _, _, err := CompactFolder(t.Context(), filepath.Join(dir, "none", "blobs.db"), extents, nil, 0, nil); err == nil {
		t.Error("a folder that does not exist was compacted")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := CompactFolder(ended, path, extents, nil, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}

	// What a compaction gives back is counted.
	node = open()
	piece(node, bytes.Repeat([]byte("waste"), 100_000))
	check.OK(t, node.Close())
	node = open()
	counted := New(node, nil)
	check.Eventually(t, func() bool {
		check.Must(counted.Compact(t.Context(), extent.CompactOptions{MinLive: 1}))(t)
		return check.Must(counted.Usage())(t).Freed >= 500_000
	}, "the space is given back and counted")
	check.OK(t, node.Close())

	// A record that cannot be read may refer to anything: nothing is compacted.
	node = open()
	check.OK(t, node.DB.Update(func(tx *store.Tx) error {
		tx.Put(record.BlobsBucket, record.BlobKey(record.Generation(5).Item("bad"), record.BaseSlot), []byte{9})
		return nil
	}))
	s := New(node, nil)
	check.OK(t, s.CompactDue(t.Context(), now, false, true))
	node.Freed.Add(1)
	if err := s.CompactDue(t.Context(), now.Add(compactSoon), true, true); err == nil {
		t.Error("a compaction that failed is not reported")
	}
	check.OK(t, node.Close())
	if _, _, err := CompactFolder(t.Context(), path, extents, nil, 0, nil); err == nil {
		t.Error("content was compacted without knowing what is referred to")
	}
}

// The figures say what there is and what was done.
func TestUsage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := check.Must(r.Usage())(t)
	r.update(func(tx *store.Tx) { record.PutContainer(tx, "a", "box", &record.Container{Generation: 5}) })
	w := r.node.Extents.NewWriter(-1)
	check.Must(w.Write([]byte(strings.Repeat("x", 5000))))(t)
	check.Must(w.Commit())(t)
	w.Close()
	r.compactions.Add(2)
	r.freed.Add(3)
	r.moved.Add(4)
	u := check.Must(r.Usage())(t)
	if u.Metadata <= 0 || u.Content < before.Content+5000 || u.Compactions != 2 || u.Freed != 3 || u.Moved != 4 ||
		u.Groups <= before.Groups || u.Updates <= before.Updates {
		t.Errorf("%+v, before %+v", u, before)
	}
	check.Must(r.Compact(t.Context(), extent.CompactOptions{}))(t)
	if got := check.Must(r.Usage())(t); got.Compactions != 3 {
		t.Errorf("%d compactions, want 3", got.Compactions)
	}
	if err := r.move(t.Context(), []extent.Move{{}}); !errors.Is(err, record.ErrKey) {
		t.Errorf("a move without a key: %v", err)
	}
	if err := r.move(t.Context(), []extent.Move{{Key: []byte("?")}}); err == nil {
		t.Error("a move of a record of no bucket")
	}
	sum := Usage{1, 2, 3, 4, 5, 6, 7, nil}
	if sum.Add(Usage{10, 20, 30, 40, 50, 60, 70, nil}); sum != (Usage{11, 22, 33, 44, 55, 66, 77, nil}) {
		t.Errorf("the sum is %+v", sum)
	}
}

// Work that has nothing left to do, or whose context has ended, ends.
func TestCollectionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	check.OK(t, r.Tidy(t.Context(), now))
	r.update(func(tx *store.Tx) {
		tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageBlocks, 5), []byte{record.Version})
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.collectGarbage(ended); !errors.Is(err, context.Canceled) || r.keys(record.GarbageBucket) != 1 {
		t.Errorf("after the end: %v, %d pieces of garbage", err, r.keys(record.GarbageBucket))
	}
}
