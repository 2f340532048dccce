package blob

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// furnish puts records of nearly each kind into the box: blobs with tags, an expiry time, a list of pages, a snapshot,
// deleted ones, uncommitted blocks, a pending copy, a deleted container, events.
func (r *rig) furnish() {
	r.t.Helper()
	r.policy.RetentionDays, r.policy.ContainerDays, r.policy.ChangeFeed = 3, 3, true
	r.put("tagged", "content of tagged", func(b *record.Blob) {
		if !r.policy.Hierarchical { // whose blobs have no tags
			b.Tags = []record.Tag{{Key: "k", Value: "v"}}
		}
	})
	r.put("expires", "content of expires", func(b *record.Blob) { b.Expires = ticks.Of(r.now.Add(time.Hour)) })
	r.put("gone", "content of gone")
	_, err := r.s.Blobs.Delete(r.write("gone"), 0)
	check.OK(r.t, err)
	if !r.policy.Hierarchical {
		r.pages("pages")
		_, _, err = r.s.Blobs.Snapshot(r.write("pages"), nil)
		check.OK(r.t, err)
	}
	_, err = r.s.Copies.Put(r.write("coming"), &record.Blob{Kind: record.BlockBlob},
		&Copy{ID: "1", Job: &record.CopyJob{URL: "elsewhere"}})
	check.OK(r.t, err)
	r.box("a", "old")
	check.OK(r.t, r.s.Containers.Delete(&ContainerWrite{Account: "a", Container: "old", Now: r.now, Policy: r.policy}))
	r.stage("growing", "x") // whose set has the highest number
}

// found returns what the check of the open state finds.
func (r *rig) found() (list []string) {
	r.t.Helper()
	// A check ends with an error where it cannot read what refers to content. What it has reported before says more.
	_, err := offline.CheckOpen(r.s.db, r.s.Extents(), func(err error) { list = append(list, err.Error()) })
	if err != nil && len(list) == 0 {
		r.t.Errorf("an error without a report: %v", err)
	}
	return list
}

// with calls fn while a record has another value; nil removes it.
func (r *rig) with(b store.Bucket, key, value []byte, fn func()) {
	r.t.Helper()
	var before []byte
	put := func(value []byte) {
		check.OK(r.t, r.s.db.Update(func(tx *store.Tx) error {
			before = bytes.Clone(tx.Get(b, key))
			if value == nil {
				tx.Delete(b, key)
			} else {
				tx.Put(b, key, value)
			}
			return nil
		}))
	}
	put(value)
	former := before
	defer put(former)
	fn()
}

// records returns the keys of a bucket.
func (r *rig) records(b store.Bucket) (keys [][]byte) {
	r.t.Helper()
	check.OK(r.t, r.s.db.View(func(tx *store.Tx) error {
		c := tx.Cursor(b)
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			keys = append(keys, bytes.Clone(k))
		}
		return nil
	}))
	return keys
}

// free are the buckets whose values, or whose loss, a check cannot know: why is said for each.
var free = map[store.Bucket]struct{ value, loss string }{
	record.TagsBucket:              {value: "the key says all"},
	record.DeletedBlobsBucket:      {value: "the key says all"},
	record.GarbageBucket:           {value: "the key says all"},
	record.ChangesBucket:           {loss: "nothing refers to an event"},
	record.EventsBucket:            {loss: "nothing refers to an event"},
	record.SubscriptionsBucket:     {loss: "nothing refers to it"},
	record.AccountsBucket:          {"it is what a client sent", "it is what a client sent"},
	record.MetaBucket:              {"see the counter", "see the counter"},
	record.DeletedContainersBucket: {loss: "its removal may have begun"},
}

// A check finds each record that has another form, that is lost, and each that is too many, wherever another one needs
// or contradicts it.
func TestCheckFindsEachRecord(t *testing.T) {
	t.Parallel()
	for _, hierarchical := range []bool{false, true} {
		r := newRig(t, Policy{Hierarchical: hierarchical})
		r.furnish()
		a, err := offline.CheckOpen(r.s.db, r.s.Extents(), func(err error) { t.Error(err) })
		if err != nil || a.Containers != 1 || a.DeletedContainers != 1 || a.UncommittedBlocks != 1 || a.Blobs < 4 {
			t.Fatalf("%+v, %v", a, err)
		}
		tried := 0
		for _, b := range record.Buckets() {
			if b != record.AccountsBucket && b != record.MetaBucket && b != record.SubscriptionsBucket {
				r.with(b, []byte{1}, []byte{record.Version}, func() {
					if len(r.found()) == 0 {
						t.Errorf("%s: a key without a form is not found", b)
					}
				})
			}
			for _, key := range r.records(b) {
				tried++
				if free[b].value == "" {
					r.with(b, key, []byte{0xff}, func() {
						if len(r.found()) == 0 {
							t.Errorf("%s: a damaged value of %q is not found", b, key)
						}
					})
				}
				// Nothing else says that a blob expires which is not there, or that a page has content.
				expired := b == record.BlobsBucket && bytes.Contains(key, []byte("expires"))
				if free[b].loss == "" && !expired && (b != record.ContentBucket || key[len(key)-1] == 0 && key[len(key)-2] == 0) {
					r.with(b, key, nil, func() {
						if len(r.found()) == 0 {
							t.Errorf("%s: the loss of %q is not found", b, key)
						}
					})
				}
			}
		}
		r.with(record.MetaBucket, record.AccountKey("shop"), []byte{0xff}, func() {
			if len(r.found()) == 0 {
				t.Error("an account that is damaged is not found")
			}
		})
		if tried < 15 {
			t.Errorf("%d records: the test shows nothing", tried)
		}
	}
}

// A repair refuses a record that it cannot read, and writes nothing.
func TestRepairRefusesUnknownRecords(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.furnish()
	})
	last := func(*store.Tx) {} // undoes the damage before
	for _, b := range []store.Bucket{record.ContainersBucket, record.DeletedContainersBucket, record.GarbageBucket,
		record.TrashBucket, record.PendingBucket, record.CopiesBucket, record.BlocksBucket, record.ContentBucket,
		record.ChangesBucket, record.EventsBucket, record.BlobsBucket, record.NamesBucket} {
		for what, damage := range map[string]func(tx *store.Tx) (undo func(tx *store.Tx)){
			"key": func(tx *store.Tx) func(*store.Tx) {
				// The names of containers are what their roots are compared with, and not parsed.
				if b == record.ContainersBucket || b == record.DeletedContainersBucket {
					return nil
				}
				tx.Put(b, []byte{1}, []byte{record.Version})
				return func(tx *store.Tx) { tx.Delete(b, []byte{1}) }
			},
			"value": func(tx *store.Tx) func(*store.Tx) {
				k, v := tx.Cursor(b).Seek(nil)
				k, v = bytes.Clone(k), bytes.Clone(v)
				// Of the others the key alone is read.
				if k == nil || slices.Contains([]store.Bucket{record.GarbageBucket, record.BlocksBucket, record.ContentBucket,
					record.ChangesBucket, record.EventsBucket}, b) {
					return nil
				}
				tx.Put(b, k, []byte{0xff})
				return func(tx *store.Tx) { tx.Put(b, k, v) }
			},
		} {
			var undo func(*store.Tx)
			if f.damage(func(tx *store.Tx) { last(tx); undo = damage(tx) }); undo == nil {
				last = func(*store.Tx) {}
				continue
			}
			last = undo
			err := offline.Repair(f.path, offline.RepairOptions{Before: func() error { return nil },
				Note: func(what string, _ bool) { t.Errorf("%s: %s", b, what) }})
			if err == nil {
				t.Errorf("%s: a damaged %s is not refused", b, what)
			}
		}
	}
	f.damage(last)
	if found := f.findings(); len(found) > 0 {
		t.Error(found)
	}
}

// Entries of indexes, and counts, that are lost or wrong are made again from the records of blobs. A folder without
// damage is left as it is.
func TestRepairOfWhatIsDerived(t *testing.T) {
	t.Parallel()
	for _, hierarchical := range []bool{false, true} {
		t.Run(fmt.Sprint("tree ", hierarchical), func(t *testing.T) { t.Parallel(); repairDerived(t, hierarchical) })
	}
}

func repairDerived(t *testing.T, hierarchical bool) {
	t.Helper()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.policy = Policy{Hierarchical: hierarchical}
		r.box("a", "box")
		r.furnish()
	})
	if notes := f.repair(false); len(notes) > 0 {
		t.Errorf("a repair without damage: %q", notes)
	}
	// An expiry that cannot delete its blob yet is tried again later.
	f.damage(func(tx *store.Tx) {
		k, v := tx.Cursor(record.ExpiringBucket).Seek(nil)
		k, v = bytes.Clone(k), bytes.Clone(v)
		tx.Delete(record.ExpiringBucket, k)
		tx.Put(record.ExpiringBucket, record.ExpiryKey(record.ExpiryTime(k)+ticks.Ticks(7), k[8:]), v)
	})
	if notes := f.repair(false); len(notes) > 0 {
		t.Errorf("a repair of a later entry: %q", notes)
	}
	each := func(b store.Bucket, fn func(tx *store.Tx, k, v []byte)) func(*store.Tx) {
		return func(tx *store.Tx) {
			n := 0
			c := tx.Cursor(b)
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				fn(tx, bytes.Clone(k), bytes.Clone(v))
				n++
			}
			if n == 0 {
				t.Errorf("%s is empty", b)
			}
		}
	}
	lose := func(b store.Bucket) func(*store.Tx) {
		return each(b, func(tx *store.Tx, k, _ []byte) { tx.Delete(b, k) })
	}
	for name, damage := range map[string]func(*store.Tx){
		"the tags":           lose(record.TagsBucket),
		"the deleted blobs":  lose(record.DeletedBlobsBucket),
		"the expiry times":   lose(record.ExpiringBucket),
		"the counter":        func(tx *store.Tx) { tx.Delete(record.MetaBucket, record.NextKey) },
		"uncommitted blocks": lose(record.BlocksBucket),
		"the counts of contents": each(record.ContentBucket, func(tx *store.Tx, k, _ []byte) {
			if _, end, err := record.ParsePieceKey(k); err == nil && end == 0 {
				tx.Put(record.ContentBucket, k, binary.AppendUvarint(nil, 9))
			}
		}),
		"an entry too many": each(record.TagsBucket, func(tx *store.Tx, k, v []byte) {
			tx.Put(record.TagsBucket, append(k[:len(k)-1:len(k)-1], 'x'), v)
		}),
	} {
		if hierarchical && slices.Contains([]string{"the counts of contents", "the tags", "the deleted blobs",
			"an entry too many"}, name) {
			continue // a tree has none of these
		}
		f.damage(damage)
		if len(f.findings()) == 0 {
			t.Errorf("%s: the check finds nothing", name)
		}
		if notes := f.repair(false); len(notes) == 0 {
			t.Errorf("%s: nothing is noted", name)
		}
	}
	f.use(func(r *rig) {
		r.wantContent("tagged", record.Address{}, "content of tagged")
		if hierarchical {
			return
		}
		q, _ := ParseTagQuery(`"k" = 'v'`, false)
		found, _, err := r.s.Tags.Find(&TagSearch{Account: "a", Query: q, Now: ticks.Of(r.now), Max: 10})
		if len(found) != 1 || err != nil {
			t.Errorf("found by its tag: %v, %v", found, err)
		}
		check.OK(t, r.s.Blobs.Undelete(r.write("gone")))
		r.wantContent("gone", record.Address{}, "content of gone")
	})
}

// A check says what contradicts what, once.
func TestCheckNamesEachViolation(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.furnish()
	base := func(tx *store.Tx, name string) (record.Item, record.Blob) {
		var b record.Blob
		it, err := (&Ref{Account: "a", Container: "box", Blob: name}).existing(tx)
		check.OK(t, err)
		check.OK(t, record.LoadBlob(tx, it, record.BaseSlot, &b))
		return it, b
	}
	change := func(name string, fn func(b *record.Blob)) func(tx *store.Tx) (store.Bucket, []byte, []byte) {
		return func(tx *store.Tx) (store.Bucket, []byte, []byte) {
			it, b := base(tx, name)
			fn(&b)
			return record.BlobsBucket, record.BlobKey(it, record.BaseSlot), b.Encode()
		}
	}
	for want, damage := range map[string]func(tx *store.Tx) (store.Bucket, []byte, []byte){
		"the pieces end at": change("tagged", func(b *record.Blob) { b.Length++ }),
		"has tags that are not indexed": change("expires", func(b *record.Blob) {
			b.Tags = []record.Tag{{Key: "a", Value: "b"}}
		}),
		"indexes a blob without tags": change("tagged", func(b *record.Blob) { b.Tags = nil }),
		"is deleted and will never be removed": change("expires", func(b *record.Blob) {
			b.Deleted, b.KeptDays = 1, 1
		}),
		"without an entry in the expiry index": change("expires", func(b *record.Blob) { b.Expires++ }),
		"waits for a copy that nothing brings": change("tagged", func(b *record.Blob) {
			b.Copy = record.CopyState{ID: "2", Status: record.CopyPending}
		}),
		"no blob waits for copy": change("coming", func(b *record.Blob) { b.Copy.ID = "3" }),
		"blobs refer to it more than it counts": func(tx *store.Tx) (store.Bucket, []byte, []byte) {
			it, b := base(tx, "pages")
			it.Name = "twin"
			return record.BlobsBucket, record.BlobKey(it, record.BaseSlot), b.Encode()
		},
		"is used twice": func(tx *store.Tx) (store.Bucket, []byte, []byte) {
			key := record.ContainerKey("a", "box")
			return record.ContainersBucket, record.ContainerKey("a", "twin"), bytes.Clone(tx.Get(record.ContainersBucket, key))
		},
		"no container has generation 999": func(*store.Tx) (store.Bucket, []byte, []byte) {
			return record.PendingBucket, record.PendingKey(record.Item{Generation: 999, Name: "x"}),
				(&record.Pending{}).Encode()
		},
		"was not deleted then, has no end": func(tx *store.Tx) (store.Bucket, []byte, []byte) {
			k, v := tx.Cursor(record.DeletedContainersBucket).Seek(nil)
			rec, err := record.DecodeContainer(v)
			check.OK(t, err)
			rec.KeptDays = 0
			return record.DeletedContainersBucket, bytes.Clone(k), rec.Encode()
		},
		"nothing refers to block set": func(*store.Tx) (store.Bucket, []byte, []byte) {
			k := r.records(record.BlocksBucket)[0]
			var v []byte
			check.OK(t, r.s.db.View(func(tx *store.Tx) error { v = bytes.Clone(tx.Get(record.BlocksBucket, k)); return nil }))
			return record.BlocksBucket, record.BlockKey(1<<40, "x"), v
		},
		"the counter of numbers is behind": func(tx *store.Tx) (store.Bucket, []byte, []byte) {
			next := binary.BigEndian.Uint64(tx.Get(record.MetaBucket, record.NextKey))
			return record.MetaBucket, record.NextKey, binary.BigEndian.AppendUint64(nil, next-1)
		},
	} {
		var b store.Bucket
		var key, value []byte
		check.OK(t, r.s.db.View(func(tx *store.Tx) error { b, key, value = damage(tx); return nil }))
		r.with(b, key, value, func() {
			n := 0
			found := r.found()
			for _, text := range found {
				n += strings.Count(text, want)
			}
			if n != 1 {
				t.Errorf("%q is found %d times in %q", want, n, found)
			}
		})
	}
}

// A file of a tree has a place in its record.
func TestCheckOfAFileWithoutAPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	r.put("d/f", "x")
	var key []byte
	var b record.Blob
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		it, err := (&Ref{Account: "a", Container: "box", Blob: "d/f"}).existing(tx)
		check.OK(t, err)
		key = record.BlobKey(it, record.BaseSlot)
		return record.LoadBlob(tx, it, record.BaseSlot, &b)
	}))
	b.Node = nil
	it, _, err := record.ParseBlobKey(key)
	check.OK(t, err)
	counter := binary.BigEndian.AppendUint64(nil, uint64(it.Inode()))
	r.with(record.MetaBucket, record.NextKey, counter, func() {
		if found := fmt.Sprint(r.found()); !strings.Contains(found, "the counter of numbers is behind") {
			t.Errorf("found %q", found)
		}
	})
	r.with(record.BlobsBucket, key, b.Encode(), func() {
		if found := fmt.Sprint(r.found()); !strings.Contains(found, record.ErrMalformed.Error()) {
			t.Errorf("found %q", found)
		}
	})
}

// Of several containers, one whose record is lost gets its name again, and the names in a file say what a key is.
func TestRepairOfOneContainer(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.box("a", "other")
		r.put("d/f", "x")
	})
	f.damage(func(tx *store.Tx) { tx.Delete(record.ContainersBucket, record.ContainerKey("a", "box")) })
	f.repair(false)
	var key []byte
	f.use(func(r *rig) {
		r.wantContent("d/f", record.Address{}, "x")
		check.OK(t, r.s.db.View(func(tx *store.Tx) error {
			key = record.BlobKey(of(t, tx, "d/f").Item(), record.BaseSlot)
			return nil
		}))
	})
	var described []string
	check.OK(t, offline.Describe(f.path, func(n *offline.Names) {
		described = []string{n.Of(record.ContainersBucket, record.ContainerKey("a", "box")), n.Of(record.BlobsBucket, key)}
	}))
	if !slices.Equal(described, []string{"container a/box", "blob a/box/d/f"}) {
		t.Errorf("the keys are of %q", described)
	}
}

// A file keeps the first of the entries that lead to it if the place of its record is taken; and uncommitted blocks
// that move to lost+found are counted there.
func TestRepairOfPlaces(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.put("d/f", "f")
		r.put("d/g", "g")
		r.stage("growing", "x")
	})
	f.damage(func(tx *store.Tx) {
		file := record.Entry{Inode: of(t, tx, "d/f"), Kind: record.EntryFile}
		taken := record.Entry{Inode: of(t, tx, "d/g"), Kind: record.EntryFile}
		tx.Put(record.NamesBucket, record.EntryKey(of(t, tx, ""), "one"), file.Encode())
		tx.Put(record.NamesBucket, record.EntryKey(of(t, tx, ""), "two"), file.Encode())
		tx.Put(record.NamesBucket, record.EntryKey(of(t, tx, "d"), "f"), taken.Encode())
	})
	notes := fmt.Sprint(f.repair(false))
	for _, want := range []string{`its second entry, "two" in a/box,`, "a/box/one: keeps this path"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes have no %q: %s", want, notes)
		}
	}
	f.use(func(r *rig) {
		want := map[string]string{"a/box/d/": "448", "a/box/d/g": "g", "a/box/one": "f", "a/box/growing": "uncommitted"}
		got := r.tree()
		want["a/box/d/"] = got["a/box/d/"]
		if !maps.Equal(got, want) {
			t.Errorf("the tree has %q, want %q", got, want)
		}
	})
	f.damage(func(tx *store.Tx) {
		tx.Delete(record.NamesBucket, record.EntryKey(of(t, tx, ""), "growing"))
		k, _ := tx.Cursor(record.BlocksBucket).Seek(nil)
		tx.Delete(record.BlocksBucket, bytes.Clone(k))
	})
	f.repair(true)
}

// What is in directories below one that is being removed goes with it, also if an entry or a record on the way is lost.
func TestRepairBelowARemovedDirectory(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(tx *store.Tx){
		"an entry": func(tx *store.Tx) { tx.Delete(record.NamesBucket, record.EntryKey(of(t, tx, "d/e/f"), "g")) },
		"a record": func(tx *store.Tx) {
			tx.Delete(record.BlobsBucket, record.BlobKey(of(t, tx, "d/e").Item(), record.BaseSlot))
		},
	} {
		f := newFolder(t)
		f.use(func(r *rig) {
			r.box("a", "box")
			r.put("e/f/g", "x") // older than the directory that it is in
			r.put("d/x", "x")
			r.put("top", "y")
			_, err := r.s.Paths.Rename(r.write("d/e"), &RenameSource{Ref: ref("e")}, &RenameChanges{})
			check.OK(t, err)
		})
		f.damage(func(tx *store.Tx) {
			d := of(t, tx, "d")
			lose(tx)
			tx.Delete(record.NamesBucket, record.EntryKey(of(t, tx, ""), "d"))
			tree.Discard(tx, d)
		})
		f.repair(false)
		f.use(func(r *rig) {
			if got := r.tree(); len(got) != 1 || got["a/box/top"] != "y" {
				t.Errorf("%s is lost: the tree has %q", what, got)
			}
			check.OK(t, r.s.Maintenance.Tidy(t.Context(), r.now))
		})
		if found := f.findings(); len(found) > 0 {
			t.Errorf("%s is lost: %q", what, found)
		}
	}
}

// The names of what was in a deleted container say so.
func TestNamesInADeletedContainer(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	var gen record.Generation
	f.use(func(r *rig) {
		r.policy = Policy{ContainerDays: 3}
		r.box("a", "old")
		check.OK(t, r.s.db.View(func(tx *store.Tx) (err error) {
			gen, err = record.GenerationOf(tx, "a", "old")
			return err
		}))
		check.OK(t, r.s.Containers.Delete(&ContainerWrite{Account: "a", Container: "old", Now: r.now, Policy: r.policy}))
	})
	described := ""
	check.OK(t, offline.Describe(f.path, func(n *offline.Names) {
		described = n.Of(record.BlobsBucket, record.BlobKey(record.Item{Generation: gen, Name: "b"}, record.BaseSlot))
	}))
	if described != "blob a/old (deleted)/b" {
		t.Errorf("the key is of %q", described)
	}
}

// Directories that are their own ancestors are found once, however many they are.
func TestCheckFindsACycleOnce(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.put("d/e/f/g", "x")
	})
	f.damage(func(tx *store.Tx) {
		d, below := of(t, tx, "d"), of(t, tx, "d/e/f")
		tx.Delete(record.NamesBucket, record.EntryKey(of(t, tx, ""), "d"))
		tx.Put(record.NamesBucket, record.EntryKey(below, "d"), record.Entry{Inode: d, Kind: record.EntryDirectory}.Encode())
		var b record.Blob
		check.OK(t, record.LoadBlob(tx, d.Item(), record.BaseSlot, &b))
		b.Node.Parent = below
		record.PutBlob(tx, d.Item(), record.BaseSlot, &b)
	})
	if n := strings.Count(fmt.Sprint(f.findings()), "its own ancestor"); n != 1 {
		t.Errorf("found %d times in %q", n, f.findings())
	}
	f.repair(false)
}
