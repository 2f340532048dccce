package blob

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// folder is the state of a hierarchical account in files, which a test damages.
type folder struct {
	t             *testing.T
	path, extents string
}

func newFolder(t *testing.T) *folder {
	dir := check.MemoryDir(t)
	return &folder{t, filepath.Join(dir, "blobs.db"), filepath.Join(dir, "extents")}
}

// use opens the state for a while.
func (f *folder) use(fn func(r *rig)) {
	f.t.Helper()
	scopes, err := encryption.OpenScopes("", func(string) []string { return nil })
	if err != nil {
		f.t.Fatal(err)
	}
	r := &rig{t: f.t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), policy: Policy{Hierarchical: true}}
	if r.s, err = Open(Config{Path: f.path, Extents: f.extents, Relaxed: true, Scopes: scopes,
		Policy: func(string) Policy { return r.policy }}); err != nil {
		f.t.Fatal(err)
	}
	fn(r)
	if err := r.s.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func (r *rig) box(account, name string) {
	r.t.Helper()
	if _, err := r.s.Containers.Create(&ContainerWrite{Account: account, Container: name, Now: r.now, Policy: r.policy},
		record.Container{}); err != nil {
		r.t.Fatal(err)
	}
}

// damage changes records without regard for their invariants.
func (f *folder) damage(fn func(tx *store.Tx)) {
	f.t.Helper()
	db, err := store.Open(f.path, store.Options{Buckets: record.Buckets(), Relaxed: true})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *store.Tx) error { fn(tx); return nil }), db.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) findings() (list []string) {
	f.t.Helper()
	if _, err := offline.Check(f.path, f.extents,
		offline.CheckOptions{Report: func(err error) { list = append(list, err.Error()) }}); err != nil {
		f.t.Fatal(err)
	}
	return list
}

// repair repairs the folder and returns the notes; the check must find nothing afterwards, and a second repair too.
func (f *folder) repair(doubtful bool) (notes []string) {
	f.t.Helper()
	before := false
	run := func() {
		f.t.Helper()
		err := offline.Repair(f.path, offline.RepairOptions{Doubtful: doubtful,
			Before: func() error { before = true; return nil },
			Note:   func(what string, lost bool) { notes = append(notes, fmt.Sprintf("%t %s", lost, what)) }})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	run()
	if found := f.findings(); len(found) > 0 {
		f.t.Errorf("after a repair: %s\nnotes: %s", strings.Join(found, "\n"), strings.Join(notes, "\n"))
	}
	if !before && len(notes) > 0 {
		f.t.Error("nothing was called before the changes")
	}
	n := len(notes)
	if run(); len(notes) > n {
		f.t.Errorf("a second repair: %q", notes[n:])
	}
	return notes
}

// tree returns the files and directories of all containers, with contents; a directory ends in a slash.
func (r *rig) tree() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	var boxes [][2]string
	if err := r.s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(record.ContainersBucket)
		for k, _ := cur.Seek(nil); k != nil; k, _ = cur.Next() {
			account, name, err := record.ParseContainerKey(k)
			if err != nil {
				return err
			}
			boxes = append(boxes, [2]string{account, name})
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	for _, box := range boxes {
		var files []string
		prefix := box[0] + "/" + box[1] + "/"
		if _, err := r.s.Blobs.List(box[0], box[1],
			&listing.Blobs{Max: 10000, Now: ticks.Of(r.now), Paths: true, Uncommitted: true},
			func(i listing.Item) error {
				switch {
				case i.Blob == nil:
					all[prefix+i.Name] = "uncommitted"
				case i.Blob.IsDirectory():
					all[prefix+i.Name+"/"] = fmt.Sprint(i.Blob.Node.Access.Mode())
				default:
					files = append(files, i.Name)
				}
				return nil
			}); err != nil {
			r.t.Fatal(err)
		}
		for _, name := range files {
			var b record.Blob
			c, err := r.s.Blobs.Open(&Read{Ref: Ref{Account: box[0], Container: box[1], Blob: name}, Now: r.now}, 0, nil, &b)
			if err != nil {
				r.t.Fatal(err)
			}
			var text bytes.Buffer
			_, err = text.ReadFrom(c.Reader)
			if err = errors.Join(err, c.Close()); err != nil {
				r.t.Fatal(err)
			}
			all[prefix+name] = text.String()
		}
	}
	return all
}

// of returns the inode of a path of the container box.
func of(t *testing.T, tx *store.Tx, path string) record.Inode {
	t.Helper()
	p, err := (&Ref{Account: "a", Container: "box", Blob: path}).find(tx)
	if err != nil || !p.Item.Exists() {
		t.Fatalf("%s: %v", path, err)
	}
	return p.Item.Inode()
}

func (r *rig) stage(name, text string) {
	r.t.Helper()
	up := r.upload(text)
	defer up.Close()
	if _, err := r.s.BlockBlobs.StageBlock(r.write(name), "block", up); err != nil {
		r.t.Fatal(err)
	}
}

// Each kind of damage to a tree is found, repaired as the comment of repair_tree.go says, and noted.
func TestRepairTree(t *testing.T) {
	t.Parallel()
	loseRecord := func(t *testing.T, tx *store.Tx, path string) { // removes it
		t.Helper()
		tx.Delete(record.BlobsBucket, record.BlobKey(of(t, tx, path).Item(), record.BaseSlot))
	}
	name := func(t *testing.T, tx *store.Tx, dir, name string) []byte {
		t.Helper()
		return record.EntryKey(of(t, tx, dir), name)
	}
	type damage func(t *testing.T, tx *store.Tx)
	for _, tc := range []struct {
		name     string
		damage   damage
		doubtful bool
		// gone and more are what the tree lacks and what it has instead; a number in a name is written #.
		gone, more []string
		// note is a part of a note; lost says that it is a loss.
		note string
		lost bool
	}{
		{"an entry of a file", func(t *testing.T, tx *store.Tx) { tx.Delete(record.NamesBucket, name(t, tx, "d", "f")) },
			false,
			nil, nil, "a/box/d/f: its entry was restored", false},
		{"an entry, when it is not known what was deleted",
			func(t *testing.T, tx *store.Tx) { tx.Delete(record.NamesBucket, name(t, tx, "d", "f")) }, true,
			[]string{"d/f"}, []string{"lost+found/", "lost+found/#-f"}, "lost+found/#-f: was moved here", false},
		{"an entry of a directory", func(t *testing.T, tx *store.Tx) { tx.Delete(record.NamesBucket, name(t, tx, "", "d")) },
			false, nil, nil, "a/box/d: its entry was restored", false},
		{"an entry whose name is in use again", func(t *testing.T, tx *store.Tx) {
			other := of(t, tx, "top")
			tx.Put(record.NamesBucket, name(t, tx, "d", "f"), record.Entry{Inode: other, Kind: record.EntryFile}.Encode())
		}, false, []string{"d/f"}, []string{"lost+found/", "lost+found/#-f"}, "a/box/lost+found/#-f", false},
		{"the record of a file", func(t *testing.T, tx *store.Tx) { loseRecord(t, tx, "d/f") }, false,
			[]string{"d/f"}, nil, `a/box/d: the file "f"`, true},
		{"the record of a directory", func(t *testing.T, tx *store.Tx) { loseRecord(t, tx, "d") }, false,
			nil, nil, "a/box/d: owner, permissions", true},
		{"the record and the entry of a directory", func(t *testing.T, tx *store.Tx) {
			loseRecord(t, tx, "d/e")
			tx.Delete(record.NamesBucket, name(t, tx, "d", "e"))
		}, false, []string{"d/e/", "d/e/g"}, []string{"lost+found/", "lost+found/#/", "lost+found/#/g"},
			"the name of the directory", true},
		{"the record of the root", func(t *testing.T, tx *store.Tx) { loseRecord(t, tx, "") }, false, nil, nil,
			"the root directory", true},
		{"the container", func(_ *testing.T, tx *store.Tx) {
			tx.Delete(record.ContainersBucket,
				record.ContainerKey("a", "box"))
		},
			false, nil, nil, "a/box: metadata and access policies", true},
		{"two entries of a file", func(t *testing.T, tx *store.Tx) {
			tx.Put(record.NamesBucket, name(t, tx, "", "twin"), record.Entry{Inode: of(t, tx, "d/f"),
				Kind: record.EntryFile}.Encode())
		}, false, nil, nil, `a/box/d/f: its second entry, "twin"`, false},
		{"an entry of another kind", func(t *testing.T, tx *store.Tx) {
			tx.Put(record.NamesBucket, name(t, tx, "d", "f"), record.Entry{Inode: of(t, tx, "d/f"),
				Kind: record.EntryDirectory}.Encode())
		}, false, nil, nil, "the kind of the entry", false},
		{"a cycle", func(t *testing.T, tx *store.Tx) {
			d, e := of(t, tx, "d"), of(t, tx, "d/e")
			tx.Delete(record.NamesBucket, name(t, tx, "", "d"))
			tx.Put(record.NamesBucket, record.EntryKey(e, "d"), record.Entry{Inode: d, Kind: record.EntryDirectory}.Encode())
			var b record.Blob
			if err := record.LoadBlob(tx, d.Item(), record.BaseSlot, &b); err != nil {
				t.Fatal(err)
			}
			b.Node.Parent = e
			record.PutBlob(tx, d.Item(), record.BaseSlot, &b)
		}, false, []string{"d/", "d/f", "d/e/", "d/e/g"},
			[]string{"lost+found/", "lost+found/#-d/", "lost+found/#-d/f", "lost+found/#-d/e/", "lost+found/#-d/e/g"},
			"was moved here: its path is not known", false},
		{"an entry of what is to be removed", func(t *testing.T, tx *store.Tx) { tree.Discard(tx, of(t, tx, "d/e")) }, false,
			[]string{"d/e/", "d/e/g"}, nil, `the entry "e" of a deleted item`, false},
		{"an entry of uncommitted blocks",
			func(t *testing.T, tx *store.Tx) { tx.Delete(record.NamesBucket, name(t, tx, "", "growing")) }, false, nil, nil,
			"a/box/growing: its entry was restored", false},
		{"a deletion that is also in its place", func(t *testing.T, tx *store.Tx) {
			n := of(t, tx, "d/f")
			rec := record.Trash{Inode: n, Kind: record.EntryFile, Deleted: 1, Days: 7}
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/f", 9), rec.Encode())
		}, false, nil, nil, "a/box/d/f: is in its place", false},
		{"the record of a deleted directory", func(t *testing.T, tx *store.Tx) {
			n := of(t, tx, "d/e")
			rec := record.Trash{Inode: n, Kind: record.EntryDirectory, Deleted: 1, Days: 7}
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/e", 9), rec.Encode())
			loseRecord(t, tx, "d/e")
			tx.Delete(record.NamesBucket, name(t, tx, "d", "e"))
		}, false, []string{"d/e/", "d/e/g"}, nil, `of the deleted directory "d/e"`, true},
		{"the record of a directory with two deletions", func(t *testing.T, tx *store.Tx) {
			rec := record.Trash{Inode: of(t, tx, "d/e"), Kind: record.EntryDirectory, Deleted: 1, Days: 7}
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/e", 9), rec.Encode())
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "moved/e", 10), rec.Encode())
			loseRecord(t, tx, "d/e")
			tx.Delete(record.NamesBucket, name(t, tx, "d", "e"))
		}, false, []string{"d/e/", "d/e/g"}, nil, `the second deletion of "moved/e"`, false},
		{"two deletions", func(t *testing.T, tx *store.Tx) {
			rec := record.Trash{Inode: of(t, tx, "d/f"), Kind: record.EntryFile, Deleted: 1, Days: 7}
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/f", 9), rec.Encode())
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/f", 10), rec.Encode())
			tx.Delete(record.NamesBucket, name(t, tx, "d", "f"))
		}, false, []string{"d/f"}, nil, `the second deletion of "d/f"`, false},
		{"the entry of an expiry time", func(t *testing.T, tx *store.Tx) {
			// The entry of an earlier expiry time is left, which goes without effect when it is due.
			var b record.Blob
			n := of(t, tx, "top")
			if err := record.LoadBlob(tx, n.Item(), record.BaseSlot, &b); err != nil {
				t.Fatal(err)
			}
			b.Expires = ticks.Of(time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC))
			record.PutBlob(tx, n.Item(), record.BaseSlot, &b)
			tx.Put(record.ExpiringBucket, record.ExpiryKey(b.Expires-1, record.BlobKey(n.Item(), record.BaseSlot)),
				record.ContainerKey("a", "box"))
		}, false, nil, nil, "1 entries of indexes were made again", false},
		{"the record of a deleted file", func(t *testing.T, tx *store.Tx) {
			n := of(t, tx, "d/f")
			rec := record.Trash{Inode: n, Kind: record.EntryFile, Deleted: 1, Days: 7}
			tx.Put(record.TrashBucket, record.TrashKey(root(t, tx), "d/f", 9), rec.Encode())
			loseRecord(t, tx, "d/f")
			tx.Delete(record.NamesBucket, name(t, tx, "d", "f"))
		}, false, []string{"d/f"}, nil, `the deleted "d/f"`, true},
		{"a file of a directory that is to be removed", func(t *testing.T, tx *store.Tx) {
			d := of(t, tx, "d/e")
			tx.Delete(record.NamesBucket, name(t, tx, "d/e", "g"))
			tx.Delete(record.NamesBucket, name(t, tx, "d", "e"))
			tree.Discard(tx, d)
		}, false, []string{"d/e/", "d/e/g"}, nil, "", false},
		{"the record of a file with a snapshot", func(t *testing.T, tx *store.Tx) { loseRecord(t, tx, "shot") }, false,
			[]string{"shot"}, []string{"lost+found/", "lost+found/#-shot"}, "the content that the newest snapshot has", true},
		{"the counter", func(_ *testing.T, tx *store.Tx) { tx.Delete(record.MetaBucket, record.NextKey) }, false, nil, nil,
			"the counter of numbers", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			var want map[string]string
			f.use(func(r *rig) {
				r.box("a", "box")
				for _, path := range []string{"d/f", "d/e/g", "top", "shot"} {
					r.put(path, "content of "+path)
				}
				if _, _, err := r.s.Blobs.Snapshot(r.write("shot"), nil); err != nil {
					t.Fatal(err)
				}
				r.stage("growing", "x")
				want = r.tree()
			})
			if found := f.findings(); len(found) > 0 {
				t.Fatal(found)
			}
			f.damage(func(tx *store.Tx) { tc.damage(t, tx) })
			if len(f.findings()) == 0 {
				t.Error("the check does not find the damage")
			}
			notes := f.repair(tc.doubtful)
			if tc.note != "" && !slices.ContainsFunc(notes, func(n string) bool {
				return strings.Contains(hideNumbers(n), tc.note) && strings.HasPrefix(n, fmt.Sprint(tc.lost))
			}) {
				t.Errorf("the notes are %q, want %q", notes, tc.note)
			}
			f.use(func(r *rig) {
				var names, wanted []string
				for n, content := range r.tree() {
					names = append(names, hideNumbers(strings.TrimPrefix(n, "a/box/")))
					if old, ok := want[n]; ok && old != content && !strings.HasSuffix(n, "/") {
						t.Errorf("%s has %q", n, content)
					}
				}
				for n := range want {
					if n = strings.TrimPrefix(n, "a/box/"); !slices.Contains(tc.gone, n) {
						wanted = append(wanted, n)
					}
				}
				wanted = append(wanted, tc.more...)
				slices.Sort(names)
				slices.Sort(wanted)
				if !slices.Equal(names, wanted) {
					t.Errorf("the tree has %q, want %q; notes %q", names, wanted, notes)
				}
				// What was repaired can be used.
				r.put("d/e/new", "new")
				r.wantContent("d/e/new", record.Address{}, "new")
				if err := r.s.Maintenance.Tidy(t.Context(), r.now); err != nil {
					t.Error(err)
				}
			})
			if found := f.findings(); len(found) > 0 {
				t.Errorf("after the background work: %q", found)
			}
		})
	}
}

func root(t *testing.T, tx *store.Tx) record.Inode {
	t.Helper()
	gen, err := record.GenerationOf(tx, "a", "box")
	if err != nil {
		t.Fatal(err)
	}
	return gen.Root()
}

// hideNumbers writes # for the number at the beginning of a segment.
func hideNumbers(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if rest := strings.TrimLeft(s, "0123456789"); rest != s && i > 0 {
			segments[i] = "#" + rest
		}
	}
	return strings.Join(segments, "/")
}

// A repair after the loss of any records leaves a folder without a finding, in which each file whose record is left can
// be read, and what was deleted is not there again.
func TestRepairTreeAfterAnyLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			f := newFolder(t)
			f.use(func(r *rig) { r.plant(random) })
			var left map[string]bool
			doubtful, again := false, false
			f.damage(func(tx *store.Tx) { left, doubtful, again = f.lose(tx, random) })
			notes := f.repair(doubtful)
			f.use(func(r *rig) {
				found := map[string]bool{}
				for path, content := range r.tree() {
					switch {
					case strings.HasSuffix(path, "/"):
					case strings.HasPrefix(content, "deleted") && !again:
						t.Errorf("%s is there again", path)
					default:
						found[content] = true
					}
				}
				for content := range left {
					if !found[content] {
						t.Errorf("the file with %q is not found; notes %s", content, strings.Join(notes, "\n"))
					}
				}
				if err := r.s.Maintenance.Tidy(t.Context(), r.now); err != nil {
					t.Error(err)
				}
			})
			if found := f.findings(); len(found) > 0 {
				t.Errorf("after the background work: %q", found)
			}
		})
	}
}

// plant makes a tree of files with contents of their own; those of deleted files begin with deleted.
func (r *rig) plant(random *rand.Rand) {
	r.t.Helper()
	dirs := []string{""}
	for _, box := range []string{"box", "other"} {
		r.box("a", box)
	}
	put := func(path, text string) {
		up := r.upload(text)
		defer up.Close()
		w := r.write(path)
		w.Container = []string{"box", "other"}[random.IntN(2)]
		if _, err := r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, up); err != nil {
			r.t.Fatal(path, err)
		}
		if !strings.HasPrefix(text, "deleted") {
			return
		}
		if r.policy.RetentionDays = 0; random.IntN(2) == 0 {
			r.policy.RetentionDays = 7
		}
		w = r.write(path[:strings.IndexByte(path+"/", '/')])
		w.Container = map[bool]string{true: "box", false: "other"}[r.existsIn("box", path)]
		w.Rights.Below = true
		if _, err := r.s.Paths.Delete(w, true); err != nil {
			r.t.Fatal(path, err)
		}
		r.policy.RetentionDays = 0
	}
	for i := range 40 {
		dir := dirs[random.IntN(len(dirs))] + fmt.Sprintf("d%d/", i)
		if random.IntN(2) == 0 && strings.Count(dir, "/") < 6 {
			dirs = append(dirs, dir)
		}
		put(dir+"f", fmt.Sprintf("content %d", i))
		if i%8 == 0 {
			put(fmt.Sprintf("x%d/y/z", i), fmt.Sprintf("deleted %d", i))
		}
	}
}

func (r *rig) existsIn(box, path string) (ok bool) {
	err := r.s.db.View(func(tx *store.Tx) error {
		_, err := (&Ref{Account: "a", Container: box, Blob: path}).existing(tx)
		ok = err == nil
		return nil
	})
	return ok && err == nil
}

// lose removes and spoils records, and returns the contents of the files that are left. again is set if records of
// deleted files are among the damaged ones, so that it cannot be known what was deleted.
func (f *folder) lose(tx *store.Tx, random *rand.Rand) (left map[string]bool, doubtful, again bool) {
	f.t.Helper()
	buckets := []store.Bucket{record.NamesBucket, record.NamesBucket, record.BlobsBucket, record.BlobsBucket,
		record.ContainersBucket, record.TrashBucket,
		record.GarbageBucket}
	if random.IntN(2) == 0 {
		buckets = buckets[:4]
	}
	for range 1 + random.IntN(20) {
		bucket := buckets[random.IntN(len(buckets))]
		var keys [][]byte
		cur := tx.Cursor(bucket)
		for k, _ := cur.Seek(nil); k != nil; k, _ = cur.Next() {
			keys = append(keys, bytes.Clone(k))
		}
		if len(keys) == 0 {
			continue
		}
		k := keys[random.IntN(len(keys))]
		again = again || ofDeleted(tx, bucket, k)
		if bucket == record.NamesBucket && random.IntN(4) == 0 { // an entry leads to another file
			other := keys[random.IntN(len(keys))]
			again = again || ofDeleted(tx, bucket, other)
			tx.Put(bucket, k, bytes.Clone(tx.Get(bucket, other)))
			continue
		}
		tx.Delete(bucket, k)
		doubtful = doubtful || offline.Doubtful([]store.Loss{{Bucket: bucket}})
	}
	again = again || doubtful
	if random.IntN(3) == 0 {
		tx.Delete(record.MetaBucket, record.NextKey)
	}
	removed := map[record.Inode]bool{}
	for changed := true; changed; { // what is below deleted directories is deleted
		n := len(removed)
		cur := tx.Cursor(record.BlobsBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			it, _, err := record.ParseBlobKey(k)
			var b record.Blob
			if err == nil {
				err = record.DecodeBlob(v, &b)
			}
			if err != nil {
				f.t.Fatal(err)
			}
			if removed[b.Node.Parent] || tx.Get(record.GarbageBucket, record.GarbageKey(record.GarbageNode,
				uint64(it.Inode()))) != nil {
				removed[it.Inode()] = true
			}
		}
		changed = len(removed) > n
	}
	// A file has the length of its content; its place in the test says which blob it belongs to.
	left = map[string]bool{}
	cur := tx.Cursor(record.BlobsBucket)
	for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
		it, slot, _ := record.ParseBlobKey(k)
		var b record.Blob
		if err := record.DecodeBlob(v, &b); err != nil {
			f.t.Fatal(err)
		}
		number := strings.TrimLeft(f.nameAbove(tx, &b), "d")
		if slot == record.BaseSlot && !b.IsDirectory() && !removed[it.Inode()] && b.Node.Name == "f" && number != "" {
			left["content "+number] = true
		}
	}
	return left, doubtful, again
}

// ofDeleted reports whether a record belongs to what was deleted, whose names begin with x, y and z.
func ofDeleted(tx *store.Tx, bucket store.Bucket, k []byte) bool {
	name := ""
	switch bucket {
	case record.NamesBucket:
		_, name, _ = record.ParseEntryKey(k)
	case record.BlobsBucket:
		var b record.Blob
		if record.DecodeBlob(tx.Get(bucket, k), &b) == nil {
			name = b.Node.Name
		}
	}
	return name != "" && name[0] >= 'x'
}

// nameAbove is the name of the directory of a file, "" if its record is lost.
func (f *folder) nameAbove(tx *store.Tx, b *record.Blob) string {
	var dir record.Blob
	if record.LoadBlob(tx, b.Node.Parent.Item(), record.BaseSlot, &dir) != nil || !strings.HasPrefix(dir.Node.Name, "d") {
		return ""
	}
	return dir.Node.Name
}
