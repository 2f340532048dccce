package blob

import (
	"bytes"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A listing of a tree fails where an entry leads to a record that is lost: without it, it would pass for the whole.
func TestListingWithoutARecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, Policy{Hierarchical: true})
	r.put("d/f", "content")
	for _, name := range []string{"d/f", "d"} {
		var key, value []byte
		change := func(fn func(tx *store.Tx) error) {
			t.Helper()
			if err := r.s.db.Update(fn); err != nil {
				t.Fatal(err)
			}
		}
		change(func(tx *store.Tx) error {
			p, err := (&Ref{Account: "a", Container: "box", Blob: name}).find(tx)
			key = record.BlobKey(p.Item, record.BaseSlot)
			value = bytes.Clone(tx.Get(record.BlobsBucket, key))
			tx.Delete(record.BlobsBucket, key)
			return err
		})
		_, err := r.s.Blobs.List("a", "box", &listing.Blobs{Max: 100, Now: ticks.Of(r.now)},
			func(listing.Item) error { return nil })
		r.wantError(err, record.ErrMalformed)
		change(func(tx *store.Tx) error { tx.Put(record.BlobsBucket, key, value); return nil })
	}
	if got := r.list(listing.Blobs{}); len(got) != 2 {
		t.Errorf("the listing has %q", got)
	}
}
