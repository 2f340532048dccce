package listing

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// treePage is a page of a listing of a tree: its methods return false when it is full.
type treePage struct {
	*Blobs
	emit  func(Item) error
	count int
	next  []byte
}

// spend does the work of a record; at returns its position.
func (p *treePage) spend(at func() []byte) (more bool, err error) {
	err = p.Work.Spend(RecordWork)
	if budget.EndsPage(err) {
		p.Short = true
		p.next = at()
		return false, nil
	}
	return err == nil, err
}

func (p *treePage) send(item Item, at func() []byte) (more bool, err error) {
	if p.count == p.Max {
		p.next = at()
		return false, nil
	}
	p.count++
	return true, p.emit(item)
}

// load makes the base record of an inode the current one.
func (l *Blobs) load(tx *store.Tx, n record.Inode) error {
	l.nodeKey = record.AppendNodeKey(l.nodeKey[:0], n)
	v := tx.Get(record.BlobsBucket, l.nodeKey)
	if v == nil {
		return record.ErrBlobNotFound
	}
	return l.decode(v, record.BaseSlot)
}

// lostRecord is the error for an entry of a directory whose record is missing, which is damage: a listing without it
// would pass for the whole.
func lostRecord(err error) error {
	if errors.Is(err, record.ErrBlobNotFound) {
		return record.ErrMalformed
	}
	return err
}
