package blob

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// spoilt calls fn while the records of a bucket that fit are damaged, and fails the test if it has no such record.
func (r *rig) spoilt(b store.Bucket, fits func(key []byte) bool, fn func()) {
	r.t.Helper()
	before := map[string]string{}
	check.OK(r.t, r.s.db.Update(func(tx *store.Tx) error {
		clear(before)
		cur := tx.Cursor(b)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if fits == nil || fits(k) {
				before[string(k)] = string(v)
				tx.Put(b, slices.Clone(k), []byte{0xff})
			}
		}
		return nil
	}))
	if len(before) == 0 {
		r.t.Errorf("there is nothing to damage in %s", b)
	}
	fn()
	check.OK(r.t, r.s.db.Update(func(tx *store.Tx) error {
		for k, v := range before {
			tx.Put(b, []byte(k), []byte(v))
		}
		return nil
	}))
}

// ref names a blob in the box of the rig.
func ref(name string) Ref { return Ref{Account: "a", Container: "box", Blob: name} }

// pages puts a page blob with one page that has content.
func (r *rig) pages(name string) Result {
	r.t.Helper()
	_, err := r.s.Blobs.Put(r.write(name), &record.Blob{Kind: record.PageBlob, Length: 4 * PageSize}, nil)
	check.OK(r.t, err)
	up := r.upload(strings.Repeat("x", PageSize))
	defer up.Close()
	out, err := r.s.PageBlobs.Write(r.write(name), PageSize, 2*PageSize, SequenceConditions{}, up)
	check.OK(r.t, err)
	return out.Result
}

// A copy of content whose list is damaged fails: it would be empty.
func TestCopyOfDamagedContent(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.pages("b")
	src := &Source{Ref: ref("b")}
	r.spoilt(record.ContentBucket, nil, func() {
		_, err := r.s.Copies.Put(r.write("copy"), &record.Blob{}, &Copy{Source: src, ID: "1"})
		r.wantError(err, record.ErrMalformed)
	})
	_, err := r.read("copy", record.Address{})
	r.wantError(err, record.ErrBlobNotFound)
	_, err = r.s.Copies.Put(r.write("copy"), &record.Blob{}, &Copy{Source: src, ID: "1"})
	check.OK(t, err)
	want := strings.Repeat("\x00", PageSize) + strings.Repeat("x", PageSize) + strings.Repeat("\x00", 2*PageSize)
	r.wantContent("copy", record.Address{}, want)
}

// The ranges of a page blob come with the time of its last change; those that differ from a damaged snapshot are not
// answered.
func TestRangesOfPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.pages("b")
	at, _, err := r.s.Blobs.Snapshot(r.write("b"), nil)
	check.OK(t, err)
	up := r.upload(strings.Repeat("y", PageSize))
	defer up.Close()
	last, err := r.s.PageBlobs.Write(r.write("b"), 0, PageSize, SequenceConditions{}, up)
	check.OK(t, err)
	read := &Read{Ref: ref("b"), Now: r.now}
	for previous, want := range map[ticks.Ticks]record.Span{0: {End: 2 * PageSize}, at: {End: PageSize}} {
		out, err := r.s.PageBlobs.Ranges(read, nil, previous)
		check.OK(t, err)
		if out.Changed != last.Changed || out.Length != 4*PageSize || out.Spans[0].Start != want.Start ||
			out.Spans[len(out.Spans)-1].End != want.End {
			t.Errorf("%+v, want the change at %d and pages up to %d", out, last.Changed, want.End)
		}
	}
	r.spoilt(record.ContentBucket, nil, func() {
		for _, previous := range []ticks.Ticks{0, at} {
			_, err := r.s.PageBlobs.Ranges(read, nil, previous)
			r.wantError(err, record.ErrMalformed)
		}
	})
	_, err = r.s.PageBlobs.Ranges(read, nil, at-1)
	r.wantError(err, ErrPreviousNotFound)
	var snapshot []byte
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		it, err := (&Ref{Account: "a", Container: "box", Blob: "b"}).existing(tx)
		snapshot = record.BlobKey(it, record.Slot(at))
		return err
	}))
	r.spoilt(record.BlobsBucket, func(key []byte) bool { return slices.Equal(key, snapshot) }, func() {
		_, err = r.s.PageBlobs.Ranges(read, nil, at)
		r.wantError(err, record.ErrMalformed)
	})
}

// A pending copy takes what belongs to it alone; and it does not end with chunks that are damaged, without which its
// snapshot would be complete and empty.
func TestIncrementalCopyWithDamagedChunks(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	job := &record.CopyJob{Snapshot: 7}
	from := &record.Blob{Kind: record.PageBlob, Length: 2 * PageSize}
	_, err := r.s.Copies.BeginIncremental(r.write("b"), from, "elsewhere", &Copy{ID: "1", Job: job})
	check.OK(t, err)
	text := strings.Repeat("x", PageSize)
	up := r.upload(text)
	defer up.Close()
	spans := []record.Span{{Start: PageSize, End: 2 * PageSize}}
	other := *job
	other.ID = "2"
	r.wantError(r.s.Copies.AddSpans(&other, spans, up, r.now), ErrCopyGone)
	check.OK(t, r.s.Copies.AddSpans(job, spans, up, r.now))
	r.wantError(r.s.Copies.AddSpans(job, spans, up, r.now), ErrCopyMoved)
	r.spoilt(record.BlocksBucket, nil, func() {
		r.wantError(r.s.Copies.EndSnapshot(job, nil, r.now), record.ErrMalformed)
	})
	check.OK(t, r.s.Copies.EndSnapshot(job, nil, r.now))
	var at ticks.Ticks
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		var b record.Blob
		it, err := (&Ref{Account: "a", Container: "box", Blob: "b"}).existing(tx)
		if err == nil {
			err = record.LoadBlob(tx, it, record.BaseSlot, &b)
		}
		at = b.Incremental.To
		return err
	}))
	r.wantContent("b", record.Address{Snapshot: at}, strings.Repeat("\x00", PageSize)+text)
}

// A blob that is restored has nothing left of its deletion.
func TestUndeleteLeavesNoTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{RetentionDays: 3})
	r.put("b", "x")
	load := func() (b record.Blob) {
		t.Helper()
		check.OK(t, r.s.db.View(func(tx *store.Tx) error {
			it, err := (&Ref{Account: "a", Container: "box", Blob: "b"}).existing(tx)
			return errors.Join(err, record.LoadBlob(tx, it, record.BaseSlot, &b))
		}))
		return b
	}
	_, err := r.s.Blobs.Delete(r.write("b"), 0)
	check.OK(t, err)
	check.OK(t, r.s.Blobs.Undelete(r.write("b")))
	if b := load(); b.Deleted != 0 || b.KeptDays != 0 {
		t.Errorf("deleted at %d, kept for %d days", b.Deleted, b.KeptDays)
	}
	r.wantContent("b", record.Address{}, "x")
}

// A rename changes the metadata if it has some, and lets them be if not. Below a directory the whole path counts.
func TestRenameWithMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	one, two := []record.Meta{{Name: "n", Value: "1"}}, []record.Meta{{Name: "n", Value: "2"}}
	r.put("b", "x", func(b *record.Blob) { b.Metadata = one })
	rename := func(from, to string, changes *RenameChanges) {
		t.Helper()
		_, err := r.s.Paths.Rename(r.write(to), &RenameSource{Ref: ref(from)}, changes)
		check.OK(t, err)
	}
	want := func(name string, metadata []record.Meta) {
		t.Helper()
		var b record.Blob
		check.OK(t, r.s.Blobs.Get(&Read{Ref: ref(name), Now: r.now}, &b))
		if !slices.Equal(b.Metadata, metadata) {
			t.Errorf("%s has %v, want %v", name, b.Metadata, metadata)
		}
	}
	rename("b", "c", &RenameChanges{})
	want("c", one)
	rename("c", "d", &RenameChanges{Metadata: &two})
	want("d", two)

	deep := strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200)
	r.put(deep+"/f", "x")
	long := strings.Repeat("n", 700)
	r.put(long, "x")
	_, err := r.s.Paths.Rename(r.write(deep), &RenameSource{Ref: ref(long), Into: true}, &RenameChanges{})
	r.wantError(err, record.ErrNameLength)
	r.wantContent(long, record.Address{}, "x")
}

// A change of the access of many items needs a tree, and does not pass over one whose record is damaged.
func TestAccessOfManyItems(t *testing.T) {
	t.Parallel()
	flat := newRig(t, Policy{})
	flat.put("d/f", "x")
	_, err := flat.s.Paths.SetAccessRecursive(flat.write("d/f"), &AccessChange{Owner: "o"}, "", 10, true)
	flat.wantError(err, ErrNotHierarchical)

	r := newRig(t, Policy{Hierarchical: true})
	r.put("d/f", "x")
	r.put("d/g", "x")
	var file []byte
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		it, err := (&Ref{Account: "a", Container: "box", Blob: "d/f"}).existing(tx)
		file = record.BlobKey(it, record.BaseSlot)
		return err
	}))
	var invalid error
	change := &AccessChange{Set: func(a posix.Access, _ bool) (posix.Access, error) { return a, invalid }}
	set := func() (AccessBatch, error) {
		w := r.write("d")
		w.Rights.Below, w.Rights.Alter.Held = true, true
		return r.s.Paths.SetAccessRecursive(w, change, "", 10, true)
	}
	r.spoilt(record.BlobsBucket, func(key []byte) bool { return slices.Equal(key, file) }, func() {
		_, err := set()
		r.wantError(err, record.ErrMalformed)
	})
	if out, err := set(); err != nil || out.Directories != 1 || out.Files != 2 || len(out.Failed) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	// A list that no item can have ends the change.
	invalid = posix.ErrInvalid
	_, err = set()
	r.wantError(err, tree.ErrACL)
}

// An append that is to acquire or renew a lease fails where it cannot.
func TestLeasesOfAnAppend(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	_, err := r.s.Blobs.Put(r.write("f"), &record.Blob{Kind: record.AppendBlob, Lake: true}, nil)
	check.OK(t, err)
	up := r.upload("y")
	defer up.Close()
	length := int64(0)
	const mine, other = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	add := func(id string, with PathLease) error {
		w := r.write("f")
		w.If.LeaseID = id
		_, err := r.s.Paths.Append(w, length, up, with)
		if err == nil {
			length++
		}
		return err
	}
	check.OK(t, add("", PathLease{Acquire: true, Proposed: mine, Duration: lease.Infinite}))
	if err := add("", PathLease{Acquire: true, Proposed: other, Duration: lease.Infinite}); err == nil {
		t.Error("a lease was acquired twice")
	}
	if err := add(other, PathLease{Renew: true}); err == nil {
		t.Error("the lease of another was renewed")
	}
	check.OK(t, add(mine, PathLease{Renew: true}))
	r.wantContent("f", record.Address{}, "yy")
}

// Calls of a state that was closed report that, and not that they have done nothing.
func TestCallsOfAClosedState(t *testing.T) {
	t.Parallel()
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(t)
	dir := t.TempDir()
	s := check.Must(Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"),
		Ephemeral: true, Scopes: scopes, Policy: func(string) Policy { return Policy{} }}))(t)
	check.OK(t, s.Close())
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, call := range map[string]func() error{
		"Reset":         func() error { _, err := s.Accounts.Reset("a", ""); return err },
		"Namespace":     func() error { _, _, err := s.Accounts.Namespace("a"); return err },
		"Pending":       func() error { _, err := s.Copies.Pending(); return err },
		"Get":           func() error { return s.Blobs.Get(&Read{Ref: ref("b"), Now: now}, new(record.Blob)) },
		"Undelete":      func() error { return s.Blobs.Undelete(&Write{Ref: ref("b"), Now: now}) },
		"Get Container": func() error { _, err := s.Containers.Get("a", "box", "", now); return err },
		"Tags":          func() error { _, err := s.Tags.Get(&Read{Ref: ref("b"), Now: now}); return err },
		"Accounts":      func() error { _, err := s.Feed.Accounts(); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}
