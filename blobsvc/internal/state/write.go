package state

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Ref names a blob record: the base blob, or one of its snapshots or versions.
type Ref struct {
	Account, Container, Blob string
	At                       Address
	// Caller limits what may be read and changed in a tree; nil is the superuser.
	Caller *posix.Caller
}

// Write has the parameters that all changes of a blob share: the caller, the conditions, and the settings.
// It is a value, so that a transaction that runs twice sees the same both times.
type Write struct {
	Ref
	// Now is the time of the request.
	Now time.Time
	// If must hold for the blob.
	If     Preconditions
	Rights Rights
	Policy Policy
	// Encryption is the encryption that the request asks for.
	Encryption EncryptionRequest
	Origin     eventlog.Origin
	// Node holds what a file or directory that is created in a tree gets.
	Node *NewNode
	// Lease, if set, is acquired on the file that is created.
	Lease *LeaseRequest

	right right
}

// right is the permission that a change of an item of a tree needs.
type right byte

const (
	toWrite  right = iota // write permission on the item
	toDelete              // that of removing it from its directory
	toAppend              // read and write permission
	ofOwner               // the change decides itself
)

// Rights are the caller's permissions that can be checked only within the transaction. All others are checked before.
type Rights struct {
	// Overwrite permits to overwrite a blob that exists. Create permission does not allow it.
	Overwrite bool
	// Below permits to remove or move what is below the path as well: a token for a blob does not.
	Below bool
	// Alter permits a change of the permissions and the list of what exists, Chown one of its owner and its group.
	Alter, Chown Grant
}

// Grant permits something within the limits of a caller, who is limited by lists or by ownership.
type Grant struct {
	Held bool
	By   *posix.Caller
}

// Policy is the settings of an account that writes depend on.
type Policy struct {
	// Versioning keeps the state of a blob before each write as a version.
	Versioning bool
	// ChangeFeed records events for the change feed.
	ChangeFeed bool
	// AccessTimes tracks when blobs were last read.
	AccessTimes bool
	// Immutability lets the blobs of new containers have immutability policies and legal holds.
	Immutability bool
	// RetentionDays is for how many days deleted blobs are kept, ContainerDays for how many days deleted containers are; 0
	// keeps nothing.
	RetentionDays, ContainerDays int64
	// Hierarchical makes new containers trees.
	Hierarchical bool
	// PermanentDelete allows the deletion of soft-deleted records.
	PermanentDelete bool
}

// EncryptionRequest is the encryption that a request asks for.
type EncryptionRequest struct {
	// Key is a customer-provided key, nil for none.
	Key *encryption.CustomerKey
	// Scope is an encryption scope, if Named; "" means the account's own key.
	Scope string
	Named bool
}

// Result is the result of a committed write.
type Result struct {
	// Changed is the time of the last change of the blob: Last-Modified and the entity tag.
	Changed ticks.Ticks
	// Version is the ID of the version that the write created, 0 for none.
	Version ticks.Ticks
	// Encryption identifies the key that the blob's content is encrypted with.
	Encryption encryption.ID
}

// change is one run of a transaction that changes a blob: its blob, and its effects so far. A transaction may run
// twice; each run begins with a new change.
type change struct {
	*Write
	s     *core
	tx    *store.Tx
	place // of the blob, once the container was entered
	now   ticks.Ticks
	// at is the time of the change, second a later one. No other change has them.
	at, second ticks.Ticks
	// previous is the blob's state before the write, for the change feed.
	previous previousState
	result   Result
	// freed is the content in bytes that lost its last reference.
	freed int64
	// written is set if the blob was created or written.
	written bool
	// afresh is set if the request writes a file as a new one, whose access control list is that of a new file.
	afresh bool
	// moved is set if the paths below a directory changed with it.
	moved bool
	// eventLogged is set if the event log has an event of the change.
	eventLogged bool
	// blockSet is the set of the blob's uncommitted blocks, once it was read.
	blockSet uint64
}

// update runs a transaction that changes blobs. Once it is committed, update counts the content that it freed and
// reports the blob that it wrote.
func (s *core) update(w *Write, fn func(*change) error) (Result, error) {
	// The times are drawn before the closure, which may run more than once: each run gives the change the same ones.
	at, second := s.ticks.Next(w.Now), s.ticks.Next(w.Now)
	// Each run replaces done as a whole, so that nothing of an earlier run is counted or reported.
	var done change
	err := s.db.Update(func(tx *store.Tx) error {
		done = change{Write: w, s: s, tx: tx, now: s.now(tx, w.Now), at: s.stamp(tx, at)}
		// In this order: each stamp of a cluster is later than the one before, so second stays later than at.
		done.second = s.stamp(tx, second)
		return fn(&done)
	})
	if err != nil {
		return Result{}, err
	}
	if done.freed > 0 {
		s.freed.Add(done.freed)
	}
	w = done.Write // which has the path in its final form
	if done.written && s.changed != nil {
		s.changed(w.Account, w.Container, w.Blob)
	}
	if done.moved && s.changed != nil {
		s.changed(w.Account, w.Container, "")
	}
	if done.eventLogged {
		s.log.Notify(w.Account)
	}
	return done.result, nil
}

// updateBlob changes the record that w names, once check has found that w's preconditions hold. change may run twice;
// it stores the record itself.
func (s *core) updateBlob(w *Write, check blobCheck, fn func(c *change, b *Blob) error) (Result, error) {
	return s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		// A read of the base blob treats an expired one as absent. Its snapshots and versions have no expiry time of their
		// own, so the base blob is deleted first, with what goes with it.
		if !w.At.IsBase() {
			if err := c.expireDue(); err != nil {
				return err
			}
		}
		var b Blob
		if err := w.At.get(c.tx, c.item, c.now, &b); err != nil {
			return err
		}
		if err := c.mayChange(&b); err != nil {
			return err
		}
		if err := check(&w.If, &b, c.now); err != nil {
			return err
		}
		return fn(c, &b)
	})
}

// enter finds the container and the place of the blob. It fails with errContainerNotFound.
func (c *change) enter() (err error) {
	if c.place, err = c.find(c.tx); err == nil && c.inTree() && c.path != c.Blob {
		w := *c.Write // which the transaction that runs again sees unchanged
		w.Blob, c.Write = c.path, &w
	}
	return err
}

// enterExisting is enter for a change of what exists: a path with too many directories does not.
func (c *change) enterExisting() error {
	err := c.enter()
	if errors.Is(err, ErrPathDepth) {
		return ErrBlobNotFound
	}
	return err
}

// inTree reports whether the container is a tree.
func (c *change) inTree() bool { return c.parent != 0 }

// mayChange checks that the caller has the permission that the change of b needs.
func (c *change) mayChange(b *Blob) error {
	switch {
	case b.Node == nil || c.right == ofOwner:
		return nil
	case c.right == toDelete: // which depends on ownership also where lists do not decide
		return checkUnlink(c.tx, b, c.Caller)
	case c.right == toAppend:
		return b.permit(c.Caller, posix.Read|posix.Write)
	}
	return b.permit(c.Caller, posix.Write)
}

// base reads the base blob into b. It fails with errBlobNotFound.
func (c *change) base(b *Blob) error { return getBlob(c.tx, c.item, baseSlot, c.now, b) }

// put stores b in its slot.
func (c *change) put(b *Blob) { putBlob(c.tx, c.item, b.slot, b) }

// key is the key of a record of the blob.
func (c *change) key(slot Slot) []byte { return blobKey(c.item, slot) }

// changes stores b, the base blob, snapshot or version, as changed at c.at, and records the event.
func (c *change) changes(e event, b *Blob) {
	b.Changed = c.at
	c.put(b)
	c.note(e, b)
	c.result.Changed = b.Changed
}

// note records an event in the transaction that causes it. b is the record as it is stored, or as it was before it was
// deleted.
func (c *change) note(e event, b *Blob) {
	c.recordEvent(e, b)
	if b.slot == baseSlot && e != eventSnapshot && e != eventDeleted {
		c.written = true
	}
}
