package listing

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Blobs is one request for a page of blobs.
type Blobs struct {
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
	Only Kind
	// VersionsOnly shows one item for a blob that is deleted and has versions.
	VersionsOnly bool

	// gen is the container's generation, once it was found: all pages of a listing are of one container.
	gen record.Generation
	rec record.Blob // the record of the current item, used again
	// nodeKey is the key of the last record of a tree, used again.
	nodeKey []byte
	name    nameState
	text    record.Texts
	form    uint32 // of the record that decode has read last, 0 for another one than a base blob's
}

// Kind is the kind of items that a listing of a tree shows.
type Kind int

const (
	AllItems Kind = iota
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
	Blob *record.Blob
	// VersionsOnly is set for the newest version of a blob without a current version.
	VersionsOnly bool
	// Deletion is the number under which a deleted file or directory of a tree can be restored, 0 for what exists.
	Deletion uint64
	// Form is that of the blob's record, for a base blob alone: see [record.Texts.Form].
	Form uint32
}

// RecordWork is the work of reading a record, in units of package budget.
const RecordWork = 200

// decode makes a record, without its pieces, the current one.
func (l *Blobs) decode(v []byte, slot record.Slot) error {
	err := l.text.BlobHead(v, &l.rec)
	l.rec.Slot = slot
	l.form = 0
	if slot == record.BaseSlot { // which the record itself does not say
		l.form = l.text.Form()
	}
	return err
}

// wants decides about the current record.
func (l *Blobs) wants() bool {
	b := &l.rec
	if b.Deleted != 0 && !l.Deleted || b.Expired(l.Now) {
		return false
	}
	// A snapshot expires with its blob, unless it is protected.
	return b.IsBase() || b.IsVersion() && l.Versions ||
		b.IsSnapshot() && l.Snapshots && (!l.name.expired || b.CheckDeletable(l.Now) != nil)
}

// nameState is the combined state of all records of a name.
type nameState struct {
	name   string
	newest record.Slot // of the newest version, deleted or not
	exists bool        // there is a base blob
	// expired is set if the base blob has expired.
	expired bool
}

// readName reads the state of the name of the current record, if it is needed to decide about that.
func (l *Blobs) readName(tx *store.Tx, it record.Item, name string) error {
	if l.name.name == name || l.rec.IsBase() && l.rec.Version == 0 || !l.VersionsOnly && !l.rec.IsSnapshot() {
		return nil
	}
	l.name = nameState{name: name}
	return record.EachSlot(tx, it, func(b *record.Blob) (more bool, err error) {
		switch {
		case b.IsVersion():
			l.name.newest = b.Slot
		case b.IsBase():
			l.name.expired = b.Expired(l.Now)
			l.name.exists = b.Deleted == 0 && !l.name.expired
			if l.name.expired && b.Version != 0 {
				l.name.newest = record.Slot(b.Version)
			}
		}
		return true, nil
	})
}

// commonPrefix returns the BlobPrefix for name in a listing by hierarchy: everything up to and including the first
// delimiter after the prefix; "" if none exists.
func (l *Blobs) commonPrefix(name string) string {
	if l.Delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(l.Prefix):], l.Delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(l.Prefix)+i+len(l.Delimiter)]
}
