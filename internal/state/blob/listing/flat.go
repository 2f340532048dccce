package listing

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// walk emits a page. It does not scan: snapshots and versions that are not wanted, and everything below a prefix that
// was emitted, are skipped by seeking.
func (l *Blobs) walk(tx *store.Tx, emit func(Item) error) (next []byte, err error) {
	scope := l.gen.Prefix()
	within := append(bytes.Clone(scope), l.Prefix...)
	start := append(bytes.Clone(scope), l.From...)
	if bytes.Compare(start, within) < 0 {
		start = within
	}
	var blobs record.Range
	blobs.Within(tx, record.BlobsBucket, within)
	blobs.Seek(start)
	var pending record.Range
	if l.Uncommitted {
		pending.Within(tx, record.PendingBucket, within)
		pending.Seek(pendingStart(start))
	}
	var last []byte // where the last item is, for listings of versions and deleted blobs
	// passed is the key without slot of the last record among the blobs, if uncommitted blocks are listed.
	var passed []byte
	count := 0
	// Two ordered walks are merged. A name with committed and uncommitted records is found in both, and findUncommitted
	// leaves it to the records of the blob.
	for blobs.Key != nil || pending.Key != nil {
		w, find := &blobs, l.findBlob
		// Without the slot a blob key is the pending key of its name, so that the two compare by name. Of equal ones the
		// blob comes first.
		if pending.Key != nil && (blobs.Key == nil || bytes.Compare(pending.Key, blobs.Key[:len(blobs.Key)-8]) < 0) {
			w, find = &pending, l.findUncommitted
		}
		// The work does not end a page between a blob and the uncommitted blocks of its name: both have one position, and
		// the next page would begin with the blob once more.
		if w == &blobs || !bytes.Equal(pending.Key, passed) {
			if err := l.Work.Spend(RecordWork); budget.EndsPage(err) {
				l.Short = true
				return l.position(w, &blobs)
			} else if err != nil {
				return nil, err
			}
		}
		if w == &blobs && l.Uncommitted {
			passed = append(passed[:0], blobs.Key[:len(blobs.Key)-8]...)
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
			skip := record.Successor(append(bytes.Clone(scope), p...))
			blobs.Seek(skip)
			// The pending walk may be past the prefix; it must not go back.
			if pending.Key != nil && bytes.Compare(pending.Key, skip) < 0 {
				pending.Seek(skip)
			}
		} else {
			w.Next()
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

// position returns where a page begins with the record at w.
func (l *Blobs) position(w, blobs *record.Range) ([]byte, error) {
	if w == blobs {
		return bytes.Clone(w.Key[8:]), nil
	}
	it, err := record.ParsePendingKey(w.Key)
	return record.BlobKey(l.gen.Item(it.Name), record.BaseSlot)[8:], err
}

// findBlob returns the item of the record at w, and the key at which a page with it begins. If the record is not wanted
// it moves w on and returns no key.
func (l *Blobs) findBlob(tx *store.Tx, w *record.Range) (item Item, at []byte, err error) {
	_, rawName, slot, err := record.SplitBlobKey(w.Key)
	if err != nil {
		return item, nil, err
	}
	// One seek skips all snapshots and versions of the name.
	if slot != record.BaseSlot && !l.Snapshots && !l.Versions && !l.VersionsOnly {
		w.Seek(record.BlobKey(l.gen.Item(string(rawName)), record.BaseSlot))
		return item, nil, nil
	}
	if err := l.decode(w.Value, slot); err != nil {
		return item, nil, err
	}
	item = Item{Name: l.text.Copy(rawName), Blob: &l.rec, Form: l.form}
	if err := l.readName(tx, l.gen.Item(item.Name), item.Name); err != nil {
		return item, nil, err
	}
	if l.rec.Expired(l.Now) && l.rec.Version != 0 { // it becomes a previous version when the background deletes it
		l.rec.Slot = record.Slot(l.rec.Version)
		l.rec.Expires = 0
		l.rec.Lease = lease.Lease{}
	}
	item.VersionsOnly = l.VersionsOnly && l.rec.IsVersion() && !l.name.exists && l.name.newest == l.rec.Slot
	if !item.VersionsOnly && !l.wants() {
		w.Next()
		return item, nil, nil
	}
	l.rec.FinishRehydration(l.Now)
	return item, w.Key, nil
}

// findUncommitted is findBlob for a name that has only uncommitted blocks.
func (l *Blobs) findUncommitted(tx *store.Tx, w *record.Range) (item Item, at []byte, err error) {
	it, err := record.ParsePendingKey(w.Key)
	if err != nil {
		return item, nil, err
	}
	item.Name = it.Name
	at = record.BlobKey(l.gen.Item(item.Name), record.BaseSlot)
	committed, err := l.committed(tx.Get(record.BlobsBucket, at))
	if err == nil && committed {
		w.Next()
		return item, nil, nil
	}
	return item, at, err
}

// committed reports whether a name with uncommitted blocks is listed as the blob that is committed under it, whose
// record is nil if it does not exist.
func (l *Blobs) committed(v []byte) (bool, error) {
	if v == nil || l.Deleted {
		return v != nil, nil
	}
	err := record.DecodeBlobHead(v, &l.rec)
	l.rec.Slot = record.BaseSlot
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
