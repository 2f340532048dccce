package blob

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A blob that has uncommitted blocks alone can be leased, unless a condition wants that it exists, and its blocks can
// be removed once.
func TestABlobOfUncommittedBlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.stage("growing", "x")
	const mine, other = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	acquire := func(id, match string) (LeaseResult, error) {
		w := r.write("growing")
		w.If.IfMatch = match
		return r.s.Blobs.Lease(w, &lease.Request{Action: lease.Acquire, Proposed: id, Duration: lease.Infinite})
	}
	_, err := acquire(mine, `"0x1"`)
	r.wantError(err, ErrConditionNotMet)
	if out, err := acquire(mine, ""); err != nil || out.Lease.State != lease.Leased || out.Lease.ID != mine {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := acquire(other, ""); err == nil {
		t.Errorf("the lease was acquired twice: %+v", out)
	}
	r.put("whole", "x")
	r.wantError(r.s.BlockBlobs.DeleteUncommitted(r.write("none")), record.ErrBlobNotFound)
	r.wantError(r.s.BlockBlobs.DeleteUncommitted(r.write("whole")), record.ErrBlobNotFound)
	r.wantContent("whole", record.Address{}, "x")
	w := r.write("growing")
	w.If.LeaseID = mine
	check.OK(t, r.s.BlockBlobs.DeleteUncommitted(w))
	r.wantError(r.s.BlockBlobs.DeleteUncommitted(r.write("growing")), record.ErrBlobNotFound)
}

// What is appended to a file is its content once it is flushed, in the order of its positions.
func TestAppendAndFlush(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	_, err := r.s.Blobs.Put(r.write("f"), &record.Blob{Kind: record.BlockBlob, Lake: true}, nil)
	check.OK(t, err)
	at := int64(0)
	for _, part := range []string{"one ", "two ", "three"} {
		up := r.upload(part)
		_, err := r.s.Paths.Append(r.write("f"), at, up, PathLease{})
		check.OK(t, err)
		up.Close()
		before := at
		at += int64(len(part))
		_, err = r.s.Paths.Flush(r.write("f"), &Flush{Position: at + 1})
		r.wantError(err, ErrFlushPosition)
		if out, err := r.s.Paths.Flush(r.write("f"), &Flush{Position: at}); err != nil || out.Length != at {
			t.Errorf("from %d: %d bytes, %v; want %d", before, out.Length, err, at)
		}
	}
	r.wantContent("f", record.Address{}, "one two three")
}

// A container has its new name alone after it was renamed, with what is in it.
func TestARenamedContainerHasOneName(t *testing.T) {
	t.Parallel()
	for _, hierarchical := range []bool{false, true} {
		r := newRig(t, Policy{Hierarchical: hierarchical})
		r.put("b", "x")
		rename := func(from, to string) error {
			r.now = r.now.Add(time.Second)
			return r.s.Containers.Rename(&ContainerWrite{Account: "a", Container: to, Now: r.now, Policy: r.policy}, from)
		}
		check.OK(t, rename("box", "crate"))
		_, err := r.s.Containers.Get("a", "box", "", r.now)
		r.wantError(err, record.ErrContainerNotFound)
		check.Must(r.s.Containers.Get("a", "crate", "", r.now))(t)
		r.wantError(rename("box", "other"), record.ErrContainerNotFound)
		check.OK(t, rename("crate", "box"))
		r.wantContent("b", record.Address{}, "x")
	}
}

// What a blob of another kind, or of a container without the ability, cannot have is refused, and changes nothing.
func TestWhatOtherBlobsHave(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.put("b", "x")
	_, err := r.s.Copies.Put(r.write("copy"), &record.Blob{}, &Copy{Source: &Source{Ref: ref("b")}, ID: "1", Seal: true})
	r.wantError(err, ErrBlobType)
	_, err = r.read("copy", record.Address{})
	r.wantError(err, record.ErrBlobNotFound)
	_, err = r.s.Immutability.SetPolicy(r.write("b"), record.Protection{Until: ticks.Of(r.now.Add(time.Hour))}, false)
	r.wantError(err, ErrNotImmutable)
	_, err = r.s.Blobs.Delete(r.write("b"), 0)
	check.OK(t, err)
}

// The sequence number of a page blob is the one that was set, and does not go beyond its range.
func TestSequenceNumbers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.pages("p")
	for _, step := range []struct {
		kind   string
		number int64
		want   int64
		err    error
	}{
		{"update", 7, 7, nil}, {"max", 5, 7, nil}, {"max", 9, 9, nil}, {"increment", 0, 10, nil},
		{"update", math.MaxInt64, math.MaxInt64, nil}, {"increment", 0, math.MaxInt64, ErrSequenceOverflow},
	} {
		out, err := r.s.Blobs.SetProperties(r.write("p"), &Properties{Size: -1,
			Sequence: SequenceAction{Kind: step.kind, Number: step.number}})
		r.wantError(err, step.err)
		var b record.Blob
		check.OK(t, r.s.Blobs.Get(&Read{Ref: ref("p"), Now: r.now}, &b))
		if b.Sequence != step.want || err == nil && out.Sequence != step.want {
			t.Errorf("%s %d: %d, and the answer is %d; want %d", step.kind, step.number, b.Sequence, out.Sequence,
				step.want)
		}
	}
}

// A blob whose record is damaged is not overwritten: its snapshots, lease and protection are not known.
func TestADamagedBlobIsNotOverwritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.put("b", "before")
	r.spoilt(record.BlobsBucket, nil, func() {
		up := r.upload("after")
		defer up.Close()
		_, err := r.s.Blobs.Put(r.write("b"), &record.Blob{Kind: record.BlockBlob}, up)
		r.wantError(err, record.ErrMalformed)
	})
	r.wantContent("b", record.Address{}, "before")
}

// The event of an overwritten blob names the version that it was, and the one that it is.
func TestEventsNameVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Versioning: true, ChangeFeed: true})
	first, second := r.put("b", "one"), r.put("b", "two")
	var events []record.Event
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		events = nil
		cur := tx.Cursor(record.ChangesBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			events = append(events, check.Must(record.DecodeEvent(k, v))(t))
		}
		return nil
	}))
	last := events[len(events)-1]
	for _, want := range []record.Tag{{Key: "BlobVersion", Value: second.Version.ISO()},
		{Key: "LastVersion", Value: first.Version.ISO()}} {
		if !slices.Contains(last.Previous, want) {
			t.Errorf("the event has %v, want %v", last.Previous, want)
		}
	}
}

// A copy that is encrypted in another way than its source has the source's bytes, and its tags if that is asked for.
func TestTagsOfAnEncryptedCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	tags := []record.Tag{{Key: "k", Value: "v"}}
	r.put("b", "content", func(b *record.Blob) { b.Tags = tags })
	secret := bytes.Repeat([]byte{7}, 32)
	sum := sha256.Sum256(secret)
	key := &encryption.CustomerKey{Key: secret, SHA256: string(sum[:])}
	for name, want := range map[string][]record.Tag{"with": tags, "without": nil} {
		w := r.write(name)
		w.Encryption.Key = key
		_, err := r.s.Copies.Put(w, &record.Blob{Kind: record.BlockBlob},
			&Copy{Source: &Source{Ref: ref("b")}, ID: "1", Sync: true, Tags: want != nil})
		check.OK(t, err)
		var b record.Blob
		check.OK(t, r.s.Blobs.Get(&Read{Ref: ref(name), Now: r.now, Key: key}, &b))
		if !slices.Equal(b.Tags, want) || b.Length != int64(len("content")) || b.Encryption.KeySHA256 != key.SHA256 {
			t.Errorf("%s tags: %v, %d bytes, encrypted with %x", name, b.Tags, b.Length, b.Encryption.KeySHA256)
		}
	}
}

// A file does not take the place of a directory, nor a directory that of a file.
func TestFilesAndDirectoriesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	r.put("d/f", "x")
	up := r.upload("y")
	defer up.Close()
	_, err := r.s.Blobs.Put(r.write("d"), &record.Blob{Kind: record.BlockBlob}, up)
	r.wantError(err, tree.ErrPathConflict)
	w := r.write("d/f")
	w.Node = &tree.NewNode{Directory: true}
	_, err = r.s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, nil)
	r.wantError(err, tree.ErrPathConflict)
	r.wantContent("d/f", record.Address{}, "x")
}
