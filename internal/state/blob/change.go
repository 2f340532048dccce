package blob

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

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
	Node *tree.NewNode
	// Lease, if set, is acquired on the file that is created.
	Lease *lease.Request

	// needs is the permission that the caller needs in a tree.
	needs need
}

// need is the permission that a change of a file or directory needs. Each operation has one; mayChange checks it when
// the record was read, and in a flat container none counts.
type need byte

const (
	// The zero value is write permission on the file: most changes. needsAppend is read and write permission, which the
	// service wants for an append and a flush.
	needsAppend need = iota + 1
	// needsRemoval is the permission to remove the entry from its directory. None on the file itself is needed.
	needsRemoval
	// needsNothing is for operations that check the caller by themselves: who may change a list is a matter of ownership
	// (AccessChange.apply).
	needsNothing
)

// Rights are the caller's permissions that can be checked only within the transaction. All others are checked before.
type Rights struct {
	// Overwrite permits to overwrite a blob that exists. Create permission does not allow it.
	Overwrite bool
	// Below permits to remove or move what is below the path as well: a token for a blob does not.
	Below bool
	// Alter permits a change of the permissions and the list of what exists, Chown one of its owner and its group.
	Alter, Chown tree.Grant
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
	s          *core
	tx         *store.Tx
	tree.Place // of the blob, once the container was entered
	// now is the time of the request: what has expired by it is absent.
	now ticks.Ticks
	// at is the time that identifies the change: Last-Modified, the entity tag, the ID of the version that it creates. No
	// other change has it.
	at ticks.Ticks
	// later is a time behind at, which no other change has either. It identifies a second record of the change: what was
	// overwritten, as a deleted snapshot, or the version that the blob is after its snapshot was taken.
	later ticks.Ticks
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
	at := s.ticks.Next(w.Now)
	later := s.ticks.Next(w.Now)
	// Each run replaces done as a whole, so that nothing of an earlier run is counted or reported.
	var done change
	err := s.db.UpdateFor(w.Account, func(tx *store.Tx) error {
		done = change{Write: w, s: s, tx: tx, now: s.node.Now(tx, w.Now), at: s.node.Stamp(tx, at)}
		// In this order: each stamp of a cluster is later than the one before, so that later stays behind at.
		done.later = s.node.Stamp(tx, later)
		return fn(&done)
	})
	if err != nil {
		return Result{}, err
	}
	if done.freed > 0 {
		s.node.Freed.Add(done.freed)
	}
	// From here on the change is durable, and what it tells others has happened.
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

// enter finds the container and the place of the blob. It fails with ErrContainerNotFound.
func (c *change) enter() (err error) {
	if c.Place, err = c.find(c.tx); err == nil && c.InTree() && c.Path != c.Blob {
		w := *c.Write // which the transaction that runs again sees unchanged
		w.Blob = c.Path
		c.Write = &w
	}
	return err
}

// enterExisting is enter for a change of what exists: a path with too many directories does not.
func (c *change) enterExisting() error {
	err := c.enter()
	if errors.Is(err, tree.ErrPathDepth) {
		return record.ErrBlobNotFound
	}
	return err
}

// link gives the path of the change an item, see [tree.Link.Make].
func (c *change) link(b *record.Blob) error {
	l := tree.Link{Place: &c.Place, Tx: c.tx, At: c.at, Caller: c.Caller, New: c.Write.Node, Alter: c.Rights.Alter,
		Chown: c.Rights.Chown, Afresh: c.afresh}
	return l.Make(b)
}

// mayChange checks that the caller has the permission that the change of b needs.
func (c *change) mayChange(b *record.Blob) error {
	switch {
	case b.Node == nil || c.needs == needsNothing:
		return nil
	case c.needs == needsRemoval: // which by the sticky bit depends on ownership as well
		return tree.CheckUnlink(c.tx, b, c.Caller)
	case c.needs == needsAppend:
		return b.Permit(c.Caller, posix.Read|posix.Write)
	}
	return b.Permit(c.Caller, posix.Write)
}

// base reads the base blob into b. It fails with ErrBlobNotFound.
func (c *change) base(b *record.Blob) error {
	return record.GetBlob(c.tx, c.Item, record.BaseSlot, c.now, b)
}

// put stores b in its slot.
func (c *change) put(b *record.Blob) { record.PutBlob(c.tx, c.Item, b.Slot, b) }

// key is the key of a record of the blob.
func (c *change) key(slot record.Slot) []byte { return record.BlobKey(c.Item, slot) }
