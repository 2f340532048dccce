package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// rig is a store with one container, and the time of the next request. When the test ends the checker must find
// nothing.
type rig struct {
	t   *testing.T
	s   *Store
	now time.Time
	// policy is that of every write.
	policy Policy
	// changed are the blobs that were reported as written.
	changed []string
}

func newRig(t *testing.T, policy Policy) *rig {
	t.Helper()
	scopes, err := encryption.OpenScopes("", func(string) []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), policy: policy}
	dir := t.TempDir()
	r.s, err = Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"), Ephemeral: true,
		Scopes:  scopes,
		Policy:  func(string) Policy { return r.policy },
		Changed: func(_, _, blob string) { r.changed = append(r.changed, blob) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := r.s.Maintenance.Audit(func(err error) { t.Error(err) }); err != nil {
			t.Error(err)
		}
		if err := r.s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := r.s.Containers.Create(&ContainerWrite{Account: "a", Container: "box", Now: r.now, Policy: policy},
		record.Container{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) write(name string) *Write {
	r.now = r.now.Add(time.Second)
	return &Write{Ref: Ref{Account: "a", Container: "box", Blob: name}, Now: r.now, Policy: r.policy,
		Rights: Rights{Overwrite: true}}
}

func (r *rig) upload(text string) *content.Upload {
	r.t.Helper()
	up, err := content.Store(r.s.Extents(), strings.NewReader(text), int64(len(text)), content.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return up
}

func (r *rig) put(name, text string, change ...func(*record.Blob)) Result {
	r.t.Helper()
	up := r.upload(text)
	defer up.Close()
	b := record.Blob{Kind: record.BlockBlob}
	for _, fn := range change {
		fn(&b)
	}
	result, err := r.s.Blobs.Put(r.write(name), &b, up)
	if err != nil {
		r.t.Fatalf("put %s: %v", name, err)
	}
	return result
}

// read returns the content of a blob, or its error.
func (r *rig) read(name string, at record.Address) (string, error) {
	r.t.Helper()
	var b record.Blob
	c, err := r.s.Blobs.Open(&Read{Ref: Ref{Account: "a", Container: "box", Blob: name, At: at}, Now: r.now}, 0, nil, &b)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	text, err := io.ReadAll(c.Reader)
	return string(text), err
}

func (r *rig) wantContent(name string, at record.Address, want string) {
	r.t.Helper()
	if got, err := r.read(name, at); got != want || err != nil {
		r.t.Errorf("%s at %+v has %q, %v; want %q", name, at, got, err, want)
	}
}

func (r *rig) wantError(got, want error) {
	r.t.Helper()
	if !errors.Is(got, want) {
		r.t.Errorf("got %v, want %v", got, want)
	}
}

// list returns the names of a listing, in order.
func (r *rig) list(l listing.Blobs) (names []string) {
	r.t.Helper()
	l.Max, l.Now = 100, ticks.Of(r.now)
	_, err := r.s.Blobs.List("a", "box", &l, func(i listing.Item) error {
		names = append(names, i.Name)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// What becomes of the present blob when another takes its place, by the settings of the account.
func TestPutBlobOverAnother(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		policy Policy
		// listed is the number of records that of the blob there are afterwards, with versions and deleted ones.
		listed int
	}{
		{"nothing stays", Policy{}, 1},
		{"soft-deleted snapshot", Policy{RetentionDays: 1}, 2},
		{"previous version", Policy{Versioning: true}, 2},
		{"a version takes precedence over soft delete", Policy{Versioning: true, RetentionDays: 1}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tc.policy)
			first := r.put("b", "one")
			second := r.put("b", "two")
			r.wantContent("b", record.Address{}, "two")
			if second.Changed <= first.Changed {
				t.Errorf("changed at %d, then at %d", first.Changed, second.Changed)
			}
			if got := len(r.list(listing.Blobs{Snapshots: true, Versions: true, Deleted: true})); got != tc.listed {
				t.Errorf("%d records, want %d", got, tc.listed)
			}
			if tc.policy.Versioning {
				r.wantContent("b", record.Address{Version: first.Version}, "one")
				r.wantContent("b", record.Address{Version: second.Version}, "two")
			}
			if len(r.changed) != 2 {
				t.Errorf("reported %q", r.changed)
			}
		})
	}
}

// Create permission does not allow overwriting.
func TestOverwriteNeedsTheRight(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	w := r.write("b")
	w.Rights = Rights{}
	up := r.upload("x")
	defer up.Close()
	if _, err := r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, up); err != nil {
		t.Fatalf("create: %v", err)
	}
	_, err := r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, up)
	r.wantError(err, ErrOverwriteForbidden)
}

// From its expiry time on a blob is absent for all requests, before the background has deleted it and after.
func TestExpiredBlobIsAbsent(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{{}, {RetentionDays: 1}, {Versioning: true}} {
		for _, deleted := range []bool{false, true} {
			r := newRig(t, policy)
			expires := func(b *record.Blob) {
				b.Expires, b.Tags = ticks.Of(r.now.Add(time.Hour)), []record.Tag{{Key: "k", Value: "v"}}
			}
			first := r.put("b", "old", expires)
			at, _, err := r.s.Blobs.Snapshot(r.write("b"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.put("other", "x")
			r.wantContent("b", record.Address{}, "old")
			r.now = r.now.Add(2 * time.Hour)
			if deleted {
				if err := r.s.Maintenance.ExpireBlobs(context.Background(), r.now); err != nil {
					t.Fatal(err)
				}
			}
			_, err = r.read("b", record.Address{})
			r.wantError(err, record.ErrBlobNotFound)
			_, err = r.read("b", record.Address{Snapshot: at})
			r.wantError(err, record.ErrBlobNotFound)
			_, err = r.s.Blobs.SetMetadata(r.write("b"), nil)
			r.wantError(err, record.ErrBlobNotFound)
			if got := r.list(listing.Blobs{Snapshots: true}); len(got) != 1 || got[0] != "other" {
				t.Errorf("listed %q", got)
			}
			q, _ := ParseTagQuery(`"k" = 'v'`, false)
			found, _, err := r.s.Tags.Find(&TagSearch{Account: "a", Query: q, Now: ticks.Of(r.now), Max: 10})
			if len(found) != 0 || err != nil {
				t.Errorf("found %v, %v", found, err)
			}
			if policy.Versioning {
				r.wantContent("b", record.Address{Version: first.Version}, "old")
				if got := r.list(listing.Blobs{Versions: true}); len(got) < 2 {
					t.Errorf("versions: %q", got)
				}
			}
			w := r.write("b")
			w.If.IfNoneMatch = "*"
			up := r.upload("new")
			if _, err := r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, up); err != nil {
				t.Errorf("create over an expired blob, deleted %v: %v", deleted, err)
			}
			up.Close()
			r.wantContent("b", record.Address{}, "new")
			if policy.RetentionDays > 0 {
				if err := r.s.Blobs.Undelete(r.write("b")); err != nil {
					t.Error(err)
				}
				if got := r.list(listing.Blobs{Snapshots: true}); len(got) < 3 {
					t.Errorf("undeleted: %q", got)
				}
			}
		}
	}
}

// An expiry does not delete what is protected, nor the destination of a pending copy.
func TestProtectedBlobsDoNotExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Immutability: true})
	until := ticks.Of(r.now.Add(3 * time.Hour))
	r.put("b", "x", func(b *record.Blob) {
		b.Expires, b.Protection = ticks.Of(r.now.Add(time.Hour)), record.Protection{Until: until}
	})
	r.now = r.now.Add(2 * time.Hour)
	if err := r.s.Maintenance.ExpireBlobs(context.Background(), r.now); err != nil {
		t.Fatal(err)
	}
	r.wantContent("b", record.Address{}, "x")
	r.now = r.now.Add(2 * time.Hour)
	_, err := r.read("b", record.Address{})
	r.wantError(err, record.ErrBlobNotFound)
	if err := r.s.Maintenance.ExpireBlobs(context.Background(), r.now); err != nil {
		t.Fatal(err)
	}
	if a, err := r.s.Maintenance.Audit(func(err error) { t.Error(err) }); err != nil || a.Blobs != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A transaction that runs twice writes the same, and reports the same.
func TestChangesCanRunTwice(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{{ChangeFeed: true}, {ChangeFeed: true, Versioning: true},
		{ChangeFeed: true, RetentionDays: 1}} {
		runTwice(t, policy)
	}
}

func runTwice(t *testing.T, policy Policy) {
	t.Helper()
	r := newRig(t, policy)
	r.put("b", "old", func(b *record.Blob) { b.Tags = []record.Tag{{Key: "k", Value: "v"}} })
	w := r.write("b")
	up := r.upload("new")
	defer up.Close()
	var runs []string
	var twice [2]change
	at, second := r.s.ticks.Next(w.Now), r.s.ticks.Next(w.Now)
	for i := range twice {
		failed := errors.New("not committed")
		err := r.s.db.Update(func(tx *store.Tx) error {
			c := change{Write: w, s: r.s.core, tx: tx, now: ticks.Of(w.Now), at: at, later: second}
			b := record.Blob{Kind: record.BlockBlob}
			b.Content, b.Length = record.LayOut(tx, up.Pieces(tx))
			if err := c.replace(&b); err != nil {
				return err
			}
			var dump bytes.Buffer
			for _, bucket := range record.Buckets() {
				cur := tx.Cursor(bucket)
				for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
					dump.WriteString(string(bucket) + " " + string(k) + " " + string(v) + "\n")
				}
			}
			runs = append(runs, dump.String())
			c.tx = nil
			twice[i] = c
			return failed
		})
		r.wantError(err, failed)
	}
	if runs[0] != runs[1] {
		t.Error("the second run wrote something else")
	}
	if twice[0].result != twice[1].result || twice[0].freed != twice[1].freed {
		t.Errorf("first %+v, then %+v", twice[0].result, twice[1].result)
	}
}

// A failed write leaves no trace and reports nothing.
func TestRefusedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.put("b", "one")
	w := r.write("b")
	w.If.IfMatch = `"0x0"`
	up := r.upload("two")
	defer up.Close()
	_, err := r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, up)
	r.wantError(err, ErrConditionNotMet)
	r.wantContent("b", record.Address{}, "one")
	if len(r.changed) != 1 {
		t.Errorf("reported %q", r.changed)
	}
}

// Put Blob discards the uncommitted blocks of its name; Put Block List commits them.
func TestUncommittedBlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	stage := func(id, text string) {
		t.Helper()
		up := r.upload(text)
		defer up.Close()
		if _, err := r.s.BlockBlobs.StageBlock(r.write("b"), id, up); err != nil {
			t.Fatal(err)
		}
	}
	refs := []BlockRef{{FromLatest, "1"}, {FromLatest, "2"}}
	stage("1", "one")
	stage("2", "two")
	if got := r.list(listing.Blobs{Uncommitted: true}); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
	if _, err := r.s.BlockBlobs.PutBlockList(r.write("b"), &record.Blob{Kind: record.BlockBlob}, refs); err != nil {
		t.Fatal(err)
	}
	r.wantContent("b", record.Address{}, "onetwo")
	stage("3", "three")
	r.put("b", "whole")
	_, err := r.s.BlockBlobs.PutBlockList(r.write("b"), &record.Blob{Kind: record.BlockBlob},
		[]BlockRef{{FromUncommitted, "3"}})
	r.wantError(err, ErrBlockList)
	up := r.upload("x")
	defer up.Close()
	stage("4", "four")
	_, err = r.s.BlockBlobs.StageBlock(r.write("b"), "longer", up)
	r.wantError(err, ErrBlockID)
}
