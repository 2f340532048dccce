package state

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Tags has the operations on the tags of blobs.
type Tags struct{ *core }

// Set replaces the tags of a blob or version. The entity tag stays.
func (s Tags) Set(w *Write, tags []Tag) error {
	_, err := s.updateBlob(w, (*Preconditions).checkTagging, func(c *change, b *Blob) error {
		if b.slot == baseSlot { // queries find the current version alone
			c.unindexTags(b)
		}
		old := b.Tags
		c.previous.tags = &old
		if b.Tags = tags; b.slot == baseSlot {
			c.indexTags(b)
		}
		c.put(b)
		c.note(eventProperties, b)
		return nil
	})
	return err
}

// indexTags records that the base blob has tags, so that Find reads only blobs that have some.
func (c *change) indexTags(b *Blob) {
	if len(b.Tags) > 0 {
		c.tx.Put(tagsBucket, tagsKey(c.Account, c.item), []byte{recordVersion})
	}
}

func (c *change) unindexTags(b *Blob) {
	if len(b.Tags) > 0 {
		c.tx.Delete(tagsBucket, tagsKey(c.Account, c.item))
	}
}

// ContainerTerm is the key by which a query of the whole account limits itself to a container.
const ContainerTerm = "@container"

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
	Tags []Tag
}

// Find returns a page of the blobs whose tags match a query, and where the next page begins, nil at the end. It
// reads the blobs that have tags, and no others.
func (s Tags) Find(q *TagSearch) (found []Tagged, next []byte, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		names, err := q.containers(tx)
		if err != nil {
			return err
		}
		scope := containerKey(q.Account, "")
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
		cur := tx.Cursor(tagsBucket)
		for k, _ := cur.Seek(start); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
			if err := q.Work.Spend(recordWork + 20*q.Query.comparisons()); budget.EndsPage(err) {
				next = bytes.Clone(k[account:])
				break
			} else if err != nil {
				return err
			}
			it, slot, err := parseBlobKey(k[account:])
			if err != nil {
				return err
			}
			container, ok := names[it.gen]
			if !ok { // deleted, and not yet collected
				continue
			}
			var b Blob
			if err := loadBlob(tx, it, slot, &b); err != nil {
				return err
			}
			if b.expired(q.Now) || !q.Query.Matches(append(b.Tags, Tag{ContainerTerm, container})) {
				continue
			}
			if len(found) == q.Max {
				next = bytes.Clone(k[account:])
				break
			}
			found = append(found, Tagged{container, it.name, q.Query.named(b.Tags)})
		}
		return nil
	})
	return found, next, err
}

// containers returns the generations of the containers that are searched, with their names.
func (q *TagSearch) containers(tx *store.Tx) (map[generation]string, error) {
	if q.Container != "" {
		gen, err := containerGeneration(tx, q.Account, q.Container)
		return map[generation]string{gen: q.Container}, err
	}
	names := map[generation]string{}
	scope := containerKey(q.Account, "")
	cur := tx.Cursor(containersBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		rec, err := decodeContainer(v)
		if err != nil {
			return nil, err
		}
		names[rec.generation] = string(k[len(scope):])
	}
	return names, nil
}
