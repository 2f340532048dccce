package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// AccessChange changes the access control of one file or directory.
type AccessChange struct {
	// Set, if not nil, returns the new list. It fails with [posix.ErrInvalid].
	Set func(a posix.Access, directory bool) (posix.Access, error)
	// Owner and Group replace the owner and the owning group, unless they are "".
	Owner, Group string
}

// apply changes the node of b. The owner of an item may change its list, and its group to one that he is in; the
// superuser may change all.
func (q *AccessChange) apply(b *record.Blob, rights *Rights) error {
	n := *b.Node
	if q.Owner != "" {
		n.Owner = q.Owner
	}
	if q.Group != "" {
		n.Group = q.Group
	}
	if (q.Owner != "" || q.Group != "") && !rights.Chown.MayChown(b.Node.Owner, b.Node.Group, &n) ||
		q.Set != nil && !(rights.Alter.Held && rights.Alter.By.MayChmod(b.Node.Owner)) {
		return record.ErrAccess
	}
	if q.Set != nil {
		var err error
		if n.Access, err = q.Set(n.Access, n.Directory); err != nil {
			return tree.ErrACL
		}
	}
	b.Node = &n
	return nil
}

// SetAccess changes the access control of a file or directory.
func (s Paths) SetAccess(w *Write, q *AccessChange) (Result, error) {
	changing := *w
	changing.needs = needsNothing
	return s.updateBlob(&changing, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if b.Node == nil {
			return ErrNotHierarchical
		}
		if err := q.apply(b, &c.Rights); err != nil {
			return err
		}
		c.put(b) // the entity tag stays (recorded)
		c.result.Changed = b.Changed
		return nil
	})
}

// AccessFailure is an item whose access control could not be changed.
type AccessFailure struct {
	Path      string
	Directory bool
	Err       error
}

// AccessBatch is the result of a part of a recursive change.
type AccessBatch struct {
	Directories, Files int
	Failed             []AccessFailure
	// Next is the path at which the next part begins, "" at the end and after a failure that ends the change.
	Next string
}

// accessBatch is the number of items that one transaction changes.
const accessBatchSize = 200

// SetAccessRecursive changes the access control of at most most items: the file or directory that w names, and what is
// below it, from a path on. Items that cannot be changed are among the failed ones; unless force is set, the first
// transaction with one is the last.
func (s Paths) SetAccessRecursive(w *Write, q *AccessChange, from string, most int, force bool) (sum AccessBatch,
	err error) {
	for {
		var part AccessBatch
		n := min(accessBatchSize, most-sum.Directories-sum.Files-len(sum.Failed))
		_, err := s.update(w, func(c *change) error {
			// A second run of the closure begins without the counts of the first.
			part = AccessBatch{}
			return c.setAccessBelow(q, from, n, &part)
		})
		if err != nil {
			return sum, err
		}
		sum.Directories += part.Directories
		sum.Files += part.Files
		sum.Failed = append(sum.Failed, part.Failed...)
		sum.Next = part.Next
		done := sum.Directories + sum.Files + len(sum.Failed)
		if !force && len(part.Failed) > 0 {
			sum.Next = "" // recorded: the caller begins again, or goes on from the token before
			return sum, nil
		}
		if part.Next == "" || done >= most {
			return sum, nil
		}
		from = part.Next
	}
}

func (c *change) setAccessBelow(q *AccessChange, from string, n int, out *AccessBatch) error {
	if err := c.enterExisting(); err != nil {
		return err
	}
	switch {
	case !c.InTree():
		return ErrNotHierarchical
	case !c.Item.Exists():
		return record.ErrBlobNotFound
	case c.Kind == record.EntryDirectory && !c.Rights.Below:
		return record.ErrAccess
	}
	var changed []struct {
		item record.Item
		b    record.Blob
	}
	count := 0
	try := func(it record.Item, path string) error {
		var b record.Blob
		switch err := record.LoadBlob(c.tx, it, record.BaseSlot, &b); {
		case errors.Is(err, record.ErrBlobNotFound): // uncommitted blocks alone
			return nil
		case err != nil:
			return err
		}
		count++
		if err := q.apply(&b, &c.Rights); err != nil {
			if errors.Is(err, tree.ErrACL) {
				return err
			}
			out.Failed = append(out.Failed, AccessFailure{path, b.IsDirectory(), err})
			return nil
		}
		if b.IsDirectory() {
			out.Directories++
		} else {
			out.Files++
		}
		changed = append(changed, struct {
			item record.Item
			b    record.Blob
		}{it, b})
		return nil
	}
	if from == "" {
		if err := try(c.Item, c.Path); err != nil {
			return err
		}
	}
	if c.Kind == record.EntryDirectory {
		if err := c.eachBelow(from, func(e record.Entry, path string) (more bool, err error) {
			if count >= n {
				out.Next = path
				return false, nil
			}
			return true, try(e.Inode.Item(), path)
		}); err != nil {
			return err
		}
	}
	// The walk checks the caller's permissions on directories. It goes by the lists from before this batch, so they are
	// written after it.
	for i := range changed {
		record.PutBlob(c.tx, changed[i].item, record.BaseSlot, &changed[i].b)
	}
	return nil
}

// eachBelow visits what is below the directory of the change, from a path on. A directory that the caller may not list
// is visited, and what is in it is not.
func (c *change) eachBelow(from string, fn func(e record.Entry, path string) (more bool, err error)) error {
	prefix := c.Path
	if prefix != "" {
		prefix += "/"
	}
	w := tree.Walk{Tx: c.tx, Caller: c.Caller}
	switch err := w.MayList(c.Item.Inode()); {
	case errors.Is(err, record.ErrAccess): // the names in it are not for the caller, nor in the failures of the change
		return nil
	case err != nil:
		return err
	}
	if err := w.Begin(c.Item.Inode(), prefix, "", from); err != nil {
		return err
	}
	// Each round visits one entry, a directory before what is in it. What a page before this one has visited is passed by
	// Begin.
	for {
		more, err := w.Next()
		if err != nil || !more {
			return err
		}
		if more, err = fn(w.Last, w.Path); err != nil || !more {
			return err
		}
		// The walk itself would fail at a directory that the caller may not list. Here the others still count.
		if w.Last.Kind == record.EntryDirectory {
			_, err := tree.Permit(c.tx, w.Last.Inode, c.Caller, posix.Read|posix.Execute)
			if err != nil && !errors.Is(err, record.ErrAccess) {
				return err
			}
			w.Descend = err == nil
		}
	}
}

// CheckAccess returns nil if the caller of r has permissions on what it names.
func (s Paths) CheckAccess(r *Read, want posix.Perm, b *record.Blob) error {
	checked := *r
	checked.Want = want
	return s.view(&checked, b, func(*store.Tx, record.Item) error {
		if b.Node == nil {
			return ErrNotHierarchical
		}
		return nil
	})
}
