package blob

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// wantFound fails the test unless the check finds something with a text while a record has another value.
func (r *rig) wantFound(want string, b store.Bucket, key, value []byte) {
	r.t.Helper()
	r.with(b, key, value, func() {
		if found := strings.Join(r.found(), "\n"); !strings.Contains(found, want) {
			r.t.Errorf("%s, key %q: found %q, want %q", b, key, found, want)
		}
	})
}

// A check looks at keys and at values, also where the other one is of its form, and at the bytes of an event that is in
// the log for subscriptions.
func TestCheckOfKeysAndValues(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	r.put("d/f", "x")
	r.with(record.NamesBucket, []byte{1}, record.Entry{Inode: 1, Kind: record.EntryFile}.Encode(), func() {
		if len(r.found()) == 0 {
			t.Error("an entry whose key has no form is not found")
		}
	})
	r.with(record.EventsBucket, eventlog.Key("a", 1), []byte{record.Version}, func() {
		if len(r.found()) == 0 {
			t.Error("an event that ends in its first field is not found")
		}
	})
}

// A check names what needs content that is not there, and not another blob.
func TestCheckNamesWhatNeedsContent(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.put("whole", "content of whole")
	r.stage("growing", "uncommitted")
	key := r.records(record.BlocksBucket)[0]
	var block []byte
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		p, err := record.DecodeBlock(tx.Get(record.BlocksBucket, key))
		p.Slices[0].Offset++
		block = record.EncodeBlock(p)
		return err
	}))
	r.wantFound(`uncommitted block "block" of set`, record.BlocksBucket, key, block)
}

// A block that says that it is encrypted has the seal of its bytes.
func TestCheckOfAnEncryptedBlock(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{})
	r.stage("growing", "uncommitted")
	key := r.records(record.BlocksBucket)[0]
	var block []byte
	check.OK(t, r.s.db.View(func(tx *store.Tx) error {
		p, err := record.DecodeBlock(tx.Get(record.BlocksBucket, key))
		p.Encryption, p.Seal.IV = encryption.ID{Scope: "secret"}, "short"
		block = record.EncodeBlock(p)
		return err
	}))
	r.wantFound("the block is not encrypted as it says", record.BlocksBucket, key, block)
}

// A check that cannot read what refers to content ends with an error, and is not taken for one that has found all.
func TestCheckThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.put("f", "x")
	})
	f.damage(func(tx *store.Tx) {
		tx.Put(record.BlobsBucket, record.BlobKey(of(t, tx, "f").Item(), record.BaseSlot), []byte{0xff})
	})
	found := 0
	if _, err := offline.Check(f.path, f.extents, offline.CheckOptions{Report: func(error) { found++ }}); err == nil ||
		found == 0 {
		t.Errorf("%d findings, %v; want an error", found, err)
	}
}

// A repair refuses the sum of uncommitted blocks whose file is not known.
func TestRepairRefusesAPendingRecordWithoutAFile(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) { r.box("a", "box") })
	f.damage(func(tx *store.Tx) { tx.Put(record.PendingBucket, []byte{1}, (&record.Pending{}).Encode()) })
	if err := offline.Repair(f.path, offline.RepairOptions{Before: func() error { return nil },
		Note: func(what string, _ bool) { t.Error(what) }}); err == nil {
		t.Error("it was repaired")
	}
}

// The counter of numbers goes past those of uncommitted blocks of which nothing is left but their sum.
func TestRepairOfTheCounterBehindLostBlocks(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.stage("growing", "x") // whose set has the highest number
	})
	f.damage(func(tx *store.Tx) {
		k, _ := tx.Cursor(record.BlocksBucket).Seek(nil)
		tx.Delete(record.BlocksBucket, bytes.Clone(k))
		tx.Delete(record.MetaBucket, record.NextKey)
	})
	if notes := strings.Join(f.repair(false), "\n"); !strings.Contains(notes, "the counter of numbers was behind") {
		t.Errorf("the notes are %q", notes)
	}
}
