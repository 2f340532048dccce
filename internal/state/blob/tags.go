package blob

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Set replaces the tags of a blob or version. The entity tag stays.
func (s Tags) Set(w *Write, tags []record.Tag) error {
	_, err := s.updateBlob(w, (*Preconditions).checkTagging, func(c *change, b *record.Blob) error {
		if b.Slot == record.BaseSlot { // queries find the current version alone
			c.unindexTags(b)
		}
		old := b.Tags
		c.previous.tags = &old
		if b.Tags = tags; b.Slot == record.BaseSlot {
			c.indexTags(b)
		}
		c.put(b)
		c.note(record.EventProperties, b)
		return nil
	})
	return err
}

// TagSearch is a search for blobs by their tags.
type TagSearch struct {
	Account string
	// Container limits the search to one container; "" searches all.
	Container string
	Query     *TagQuery
	Now       ticks.Ticks
	// From is the position at which the page begins, as a search before returned it; nil is the beginning.
	From []byte
	// Max is the number of blobs in a page.
	Max int
	// Work limits the blobs that are read: when it is exhausted, the page ends. Nil is no limit.
	Work *budget.Work
}

// Tagged is a blob that a search found.
type Tagged struct {
	Container, Blob string
	// Tags are the tags that the query names.
	Tags []record.Tag
}

// Find returns a page of the blobs whose tags match a query, and where the next page begins, nil at the end. It
// reads the blobs that have tags, and no others.
func (s Tags) Find(q *TagSearch) (found []Tagged, next []byte, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		names, err := q.containers(tx)
		if err != nil {
			return err
		}
		// The index has the account, the generation of the container, then the name. So a search of one container reads its
		// part of the index alone; q.containers has one generation then.
		scope := record.ContainerKey(q.Account, "")
		account := len(scope)
		if q.Container != "" {
			for gen := range names {
				scope = binary.BigEndian.AppendUint64(scope, uint64(gen))
			}
		}
		start := append(bytes.Clone(scope[:account]), q.From...)
		if bytes.Compare(start, scope) < 0 {
			start = scope
		}
		cur := tx.Cursor(record.TagsBucket)
		// Each round does one blob with tags. next stays nil at the end of the index; a page that ends before begins again
		// with the blob that it did not take.
		for k, _ := cur.Seek(start); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
			if err := q.Work.Spend(listing.RecordWork + 20*q.Query.comparisons()); budget.EndsPage(err) {
				next = bytes.Clone(k[account:])
				break
			} else if err != nil {
				return err
			}
			it, slot, err := record.ParseBlobKey(k[account:])
			if err != nil {
				return err
			}
			container, ok := names[it.Generation]
			if !ok { // deleted, and not yet collected
				continue
			}
			var b record.Blob
			if err := record.LoadBlob(tx, it, slot, &b); err != nil {
				return err
			}
			// The container is searched for as if it were a tag of the blob.
			if b.Expired(q.Now) || !q.Query.Matches(append(b.Tags, record.Tag{Key: ContainerTerm, Value: container})) {
				continue
			}
			if len(found) == q.Max {
				next = bytes.Clone(k[account:])
				break
			}
			found = append(found, Tagged{container, it.Name, q.Query.named(b.Tags)})
		}
		return nil
	})
	return found, next, err
}

// containers returns the generations of the containers that are searched, with their names.
func (q *TagSearch) containers(tx *store.Tx) (map[record.Generation]string, error) {
	if q.Container != "" {
		gen, err := record.GenerationOf(tx, q.Account, q.Container)
		return map[record.Generation]string{gen: q.Container}, err
	}
	names := map[record.Generation]string{}
	scope := record.ContainerKey(q.Account, "")
	cur := tx.Cursor(record.ContainersBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		rec, err := record.DecodeContainer(v)
		if err != nil {
			return nil, err
		}
		names[rec.Generation] = string(k[len(scope):])
	}
	return names, nil
}
