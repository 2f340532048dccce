package blobsvc

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Listing is one request for a page of blobs.
type Listing struct {
	Prefix, Delimiter string
	// From is where the page begins: the rest of a blob key after the generation, or a prefix of one.
	From []byte
	Max  int
	// What is included beside base blobs.
	Snapshots, Uncommitted, Deleted, Versions bool
	// VersionsOnly shows one item for a blob that is deleted and has versions.
	VersionsOnly bool
	rec          Blob // of the item at hand, used again
	past         past // of the name at hand
}

// Item is one item of a page: a blob, a prefix, or a blob that has only uncommitted blocks.
type Item struct {
	Prefix string
	Name   string
	slot   uint64
	Blob   *Blob // without its pieces; nil for a prefix and for uncommitted blocks
	// VersionsOnly is set for the newest version of a blob that has no current one.
	VersionsOnly bool
}

// walk calls emit with up to max items in order and returns where the next page begins, nil at the end. It does not scan:
// snapshots and versions that are not wanted, and everything below a prefix that was emitted, are skipped by seeking.
func (l *Listing) walk(tx *store.Tx, gen uint64, emit func(Item) error) (next []byte, err error) {
	scope := generationPrefix(gen)
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
	count := 0
	full := func(at []byte) bool {
		if count < l.Max {
			return false
		}
		next = bytes.Clone(at[8:])
		return true
	}
	for blobs.key != nil || pending.key != nil {
		if pending.key != nil && (blobs.key == nil || bytes.Compare(pending.key, blobs.key[:len(blobs.key)-8]) < 0) {
			_, rawName, err := parsePendingKey(pending.key)
			if err != nil {
				return nil, err
			}
			name := string(rawName)
			key := blobKey(gen, name, baseSlot)
			committed, err := l.committed(tx.Get(blobsBucket, key))
			if err != nil {
				return nil, err
			}
			if committed {
				pending.next()
				continue
			}
			if full(key) {
				return next, nil
			}
			if p := l.commonPrefix(name); p != "" {
				err = emit(Item{Prefix: p})
				skip := successor(append(bytes.Clone(scope), p...))
				blobs.seek(skip)
				pending.seek(skip)
			} else {
				err = emit(Item{Name: name, slot: baseSlot})
				pending.next()
			}
			if err != nil {
				return nil, err
			}
			count++
			continue
		}
		_, rawName, slot, err := parseBlobKey(blobs.key)
		if err != nil {
			return nil, err
		}
		if slot != baseSlot && !l.Snapshots && !l.Versions && !l.VersionsOnly {
			blobs.seek(blobKey(gen, string(rawName), baseSlot))
			continue
		}
		if err := decodeBlobHead(blobs.value, &l.rec); err != nil {
			return nil, err
		}
		only := false
		if l.VersionsOnly && l.rec.IsVersion(slot) {
			if only, err = l.isLast(tx, gen, string(rawName), slot); err != nil {
				return nil, err
			}
		}
		if !only && !l.wants(slot) {
			blobs.next()
			continue
		}
		if full(blobs.key) {
			return next, nil
		}
		if l.Delimiter != "" {
			if p := l.commonPrefix(string(rawName)); p != "" {
				if err := emit(Item{Prefix: p}); err != nil {
					return nil, err
				}
				count++
				skip := successor(append(bytes.Clone(scope), p...))
				blobs.seek(skip)
				if pending.key != nil && bytes.Compare(pending.key, skip) < 0 {
					pending.seek(skip)
				}
				continue
			}
		}
		if err := emit(Item{Name: string(rawName), slot: slot, Blob: &l.rec, VersionsOnly: only}); err != nil {
			return nil, err
		}
		count++
		blobs.next()
	}
	return nil, nil
}

// wants decides about the record at hand.
func (l *Listing) wants(slot uint64) bool {
	b := &l.rec
	if b.Deleted != 0 && !l.Deleted {
		return false
	}
	return slot == baseSlot || b.IsSnapshot(slot) && l.Snapshots || b.IsVersion(slot) && l.Versions
}

// past is what isLast found out about a name.
type past struct {
	name   string
	newest uint64 // the slot of the newest version, deleted or not
	alive  bool   // there is a current version, or a blob that is none
}

// isLast reports whether a version is the newest of a blob that has no current one.
func (l *Listing) isLast(tx *store.Tx, gen uint64, name string, slot uint64) (bool, error) {
	if l.past.name != name {
		l.past = past{name: name}
		err := eachRecord(tx, gen, name, func(slot uint64, b *Blob) (more bool, err error) {
			if b.IsVersion(slot) {
				l.past.newest = slot
			}
			l.past.alive = slot == baseSlot && b.Deleted == 0
			return true, nil
		})
		if err != nil {
			return false, err
		}
	}
	return !l.past.alive && l.past.newest == slot, nil
}

// committed reports whether a name with uncommitted blocks is listed as what is committed under it, record if anything.
func (l *Listing) committed(record []byte) (bool, error) {
	if record == nil || l.Deleted {
		return record != nil, nil
	}
	err := decodeBlobHead(record, &l.rec)
	return err == nil && l.rec.Deleted == 0, err
}

// pendingStart cuts a position among blob keys to one among pending keys, which have no slot: a page may begin at a base
// blob, and the pending record of the same name must still be found.
func pendingStart(start []byte) []byte {
	if n := len(start) - 8; n > 8 && start[n-1] == 0 {
		return start[:n]
	}
	return start
}

// commonPrefix returns what stands for name in a listing by hierarchy: everything up to and including the first delimiter
// after the prefix; "" if there is none.
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
