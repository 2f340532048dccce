package state

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Listing is one request for a page of blobs.
type Listing struct {
	Prefix, Delimiter string
	// From is the position at which the page begins: the rest of a blob key after the generation, or a prefix of one.
	From []byte
	// EndBefore ends the listing: no blob of this name or a later one is an item. "" sets no end.
	EndBefore string
	// Max is the number of items in a page. To end the page, the function that takes the items sets it to their number so
	// far.
	Max int
	// Now decides which blobs have expired.
	Now ticks.Ticks
	// Work limits the records that are read, wanted or not. Nil is no limit.
	Work *budget.Work
	// Short is set when a page ends before it has Max items because Work is exhausted.
	Short bool
	// Items to include in addition to base blobs.
	Snapshots, Uncommitted, Deleted, Versions bool
	// Caller limits what is listed in a tree; nil is the superuser.
	Caller *posix.Caller
	// Paths lists the directories of a tree as items, and those below Directory alone, which must exist. With a delimiter
	// it does not descend.
	Paths     bool
	Directory string
	// Only limits the items of a tree to one kind.
	Only ItemKind
	// VersionsOnly shows one item for a blob that is deleted and has versions.
	VersionsOnly bool

	// gen is the container's generation, once it was found: all pages of a listing are of one container.
	gen generation
	rec Blob // the record of the current item, used again
	// nodeKey is the key of the last record of a tree, used again.
	nodeKey []byte
	name    nameState
	text    texts
}

// ItemKind is the kind of items that a listing of a tree shows.
type ItemKind int

const (
	AllItems ItemKind = iota
	Files
	Directories
	// DeletedItems are those that were deleted and are kept. The caller must be the superuser.
	DeletedItems
)

// Item is one item of a page: a blob, a prefix, or a blob that has only uncommitted blocks.
type Item struct {
	Prefix string
	Name   string
	// Blob is without its pieces, and valid until the next item, its metadata and node too. For a prefix it is the
	// directory of a tree with that path; nil if none exists, and for uncommitted blocks.
	Blob *Blob
	// VersionsOnly is set for the newest version of a blob without a current version.
	VersionsOnly bool
	// Deletion is the number under which a deleted file or directory of a tree can be restored, 0 for what exists.
	Deletion uint64
}

// List calls emit with the items of a page in order, and returns where the next page begins, nil at the end.
func (s Blobs) List(account, container string, l *Listing, emit func(Item) error) (next []byte, err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		if l.gen == 0 {
			if l.gen, err = containerGeneration(tx, account, container); err != nil {
				return err
			}
		}
		if l.gen.isTree() {
			next, err = l.walkTree(tx, emit)
		} else {
			next, err = l.walk(tx, emit)
		}
		return err
	})
	return next, err
}

// walk emits a page. It does not scan: snapshots and versions that are not wanted, and everything below a prefix that
// was emitted, are skipped by seeking.
func (l *Listing) walk(tx *store.Tx, emit func(Item) error) (next []byte, err error) {
	scope := l.gen.prefix()
	within := append(bytes.Clone(scope), l.Prefix...)
	start := append(bytes.Clone(scope), l.From...)
	if bytes.Compare(start, within) < 0 {
		start = within
	}
	blobs := walker{cur: tx.Cursor(blobsBucket), within: within}
	blobs.seek(start)
	var pending walker
	if l.Uncommitted {
		pending = walker{cur: tx.Cursor(pendingBucket), within: within}
		pending.seek(pendingStart(start))
	}
	var last []byte // where the last item is, for listings of versions and deleted blobs
	count := 0
	// Two ordered walks are merged. A name with committed and uncommitted records is found in both, and findUncommitted
	// leaves it to the records of the blob.
	for blobs.key != nil || pending.key != nil {
		w, find := &blobs, l.findBlob
		// Without the slot a blob key is the pending key of its name, so that the two compare by name. Of equal ones the
		// blob comes first.
		if pending.key != nil && (blobs.key == nil || bytes.Compare(pending.key, blobs.key[:len(blobs.key)-8]) < 0) {
			w, find = &pending, l.findUncommitted
		}
		if err := l.Work.Spend(recordWork); budget.EndsPage(err) {
			l.Short = true
			return l.position(w, &blobs)
		} else if err != nil {
			return nil, err
		}
		item, at, err := find(tx, w)
		if err != nil {
			return nil, err
		}
		if at == nil { // nothing that is wanted; w has moved on
			continue
		}
		if l.EndBefore != "" && item.Name >= l.EndBefore {
			return nil, nil
		}
		// One item more than the page has was found: its position is where the next page begins. So a full last page has
		// no next one.
		if count == l.Max {
			return bytes.Clone(at[8:]), nil
		}
		count++
		if l.Deleted && l.Versions {
			last = append(last[:0], at...)
		}
		if p := l.commonPrefix(item.Name); p != "" {
			item = Item{Prefix: p}
			skip := successor(append(bytes.Clone(scope), p...))
			blobs.seek(skip)
			// The pending walk may be past the prefix; it must not go back.
			if pending.key != nil && bytes.Compare(pending.key, skip) < 0 {
				pending.seek(skip)
			}
		} else {
			w.next()
		}
		if err := emit(item); err != nil {
			return nil, err
		}
	}
	if last != nil && count == l.Max { // Azure has looked no further: the next page is empty (recorded)
		return append(last[8:], 0), nil
	}
	return nil, nil
}

// recordWork is the work of reading a record, in units of package budget.
const recordWork = 200

// position returns where a page begins with the record at w.
func (l *Listing) position(w, blobs *walker) ([]byte, error) {
	if w == blobs {
		return bytes.Clone(w.key[8:]), nil
	}
	it, err := parsePendingKey(w.key)
	return blobKey(l.gen.item(it.name), baseSlot)[8:], err
}

// findBlob returns the item of the record at w, and the key at which a page with it begins. If the record is not wanted
// it moves w on and returns no key.
func (l *Listing) findBlob(tx *store.Tx, w *walker) (item Item, at []byte, err error) {
	_, rawName, slot, err := splitBlobKey(w.key)
	if err != nil {
		return item, nil, err
	}
	// One seek skips all snapshots and versions of the name.
	if slot != baseSlot && !l.Snapshots && !l.Versions && !l.VersionsOnly {
		w.seek(blobKey(l.gen.item(string(rawName)), baseSlot))
		return item, nil, nil
	}
	if err := l.decode(w.value, slot); err != nil {
		return item, nil, err
	}
	item = Item{Name: l.text.string(rawName), Blob: &l.rec}
	if err := l.readName(tx, l.gen.item(item.Name), item.Name); err != nil {
		return item, nil, err
	}
	if l.rec.expired(l.Now) && l.rec.Version != 0 { // it becomes a previous version when the background deletes it
		l.rec.slot, l.rec.Expires, l.rec.Lease = Slot(l.rec.Version), 0, Lease{}
	}
	item.VersionsOnly = l.VersionsOnly && l.rec.IsVersion() && !l.name.exists && l.name.newest == l.rec.slot
	if !item.VersionsOnly && !l.wants() {
		w.next()
		return item, nil, nil
	}
	l.rec.finishRehydration(l.Now)
	return item, w.key, nil
}

// decode makes a record, without its pieces, the current one.
func (l *Listing) decode(v []byte, slot Slot) error {
	err := decodeBlobFrom(l.text.decoder(v), &l.rec, false)
	l.rec.slot = slot
	if l.rec.Metadata != nil {
		l.text.metadata = l.rec.Metadata
	}
	return err
}

// wants decides about the current record.
func (l *Listing) wants() bool {
	b := &l.rec
	if b.Deleted != 0 && !l.Deleted || b.expired(l.Now) {
		return false
	}
	return b.IsBase() || b.IsSnapshot() && l.Snapshots && !l.name.expired || b.IsVersion() && l.Versions
}

// nameState is the combined state of all records of a name.
type nameState struct {
	name   string
	newest Slot // of the newest version, deleted or not
	exists bool // there is a base blob
	// expired is set if the base blob has expired.
	expired bool
}

// readName reads the state of the name of the current record, if it is needed to decide about that.
func (l *Listing) readName(tx *store.Tx, it item, name string) error {
	if l.name.name == name || l.rec.IsBase() && l.rec.Version == 0 || !l.VersionsOnly && !l.rec.IsSnapshot() {
		return nil
	}
	l.name = nameState{name: name}
	return eachRecord(tx, it, func(b *Blob) (more bool, err error) {
		switch {
		case b.IsVersion():
			l.name.newest = b.slot
		case b.IsBase():
			l.name.expired = b.expired(l.Now)
			l.name.exists = b.Deleted == 0 && !l.name.expired
			if l.name.expired && b.Version != 0 {
				l.name.newest = Slot(b.Version)
			}
		}
		return true, nil
	})
}

// findUncommitted is findBlob for a name that has only uncommitted blocks.
func (l *Listing) findUncommitted(tx *store.Tx, w *walker) (item Item, at []byte, err error) {
	it, err := parsePendingKey(w.key)
	if err != nil {
		return item, nil, err
	}
	item.Name = it.name
	at = blobKey(l.gen.item(item.Name), baseSlot)
	committed, err := l.committed(tx.Get(blobsBucket, at))
	if err == nil && committed {
		w.next()
		return item, nil, nil
	}
	return item, at, err
}

// committed reports whether a name with uncommitted blocks is listed as the blob that is committed under it, whose
// record is nil if it does not exist.
func (l *Listing) committed(record []byte) (bool, error) {
	if record == nil || l.Deleted {
		return record != nil, nil
	}
	err := decodeBlobHead(record, &l.rec)
	l.rec.slot = baseSlot
	return err == nil && l.rec.Deleted == 0, err
}

// pendingStart cuts a position among blob keys to one among pending keys, which have no slot: a page may begin at a
// base blob, and the pending record of the same name must still be found.
func pendingStart(start []byte) []byte {
	if n := len(start) - 8; n > 8 && start[n-1] == 0 {
		return start[:n]
	}
	return start
}

// commonPrefix returns the BlobPrefix for name in a listing by hierarchy: everything up to and including the first
// delimiter after the prefix; "" if none exists.
func (l *Listing) commonPrefix(name string) string {
	if l.Delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(l.Prefix):], l.Delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(l.Prefix)+i+len(l.Delimiter)]
}

// walker is a cursor that ends where the keys leave a prefix.
type walker struct {
	cur        *store.Cursor
	within     []byte
	key, value []byte
}

func (w *walker) seek(k []byte) { w.take(w.cur.Seek(k)) }
func (w *walker) next()         { w.take(w.cur.Next()) }
func (w *walker) take(k, v []byte) {
	if !bytes.HasPrefix(k, w.within) {
		k, v = nil, nil
	}
	w.key, w.value = k, v
}
