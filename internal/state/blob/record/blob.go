package record

import (
	"crypto/cipher"
	"encoding/base64"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Kind is the type of a blob.
type Kind byte

const (
	BlockBlob Kind = iota + 1
	PageBlob
	AppendBlob
)

// String is the value of x-ms-blob-type.
func (k Kind) String() string {
	switch k {
	case BlockBlob:
		return "BlockBlob"
	case PageBlob:
		return "PageBlob"
	case AppendBlob:
		return "AppendBlob"
	}
	return ""
}

func ParseKind(s string) (Kind, bool) {
	switch s {
	case "BlockBlob":
		return BlockBlob, true
	case "PageBlob":
		return PageBlob, true
	case "AppendBlob":
		return AppendBlob, true
	}
	return 0, false
}

// Blob is the state of one committed blob, or of one snapshot or version of it.
type Blob struct {
	Kind Kind
	// Created is the time of creation. Changed is the time of the last write: Last-Modified and the entity tag.
	Created, Changed ticks.Ticks
	// Length is the size of the content in bytes.
	Length  int64
	Content PieceList

	Headers  Headers
	Metadata []Meta
	Tags     []Tag
	Lease    lease.Lease

	// Tier is the access tier that was set, "" where the account's default is inferred; tierChanged is when.
	Tier        string
	TierChanged ticks.Ticks
	// RehydrateTo is the tier that an archived blob is on its way to.
	RehydrateTo string
	// RehydrateHigh is set if the rehydration was asked for with high priority.
	RehydrateHigh bool

	// Sequence is the sequence number of a page blob.
	Sequence int64
	// Replaced is when a page blob took the place of another of its name, 0 for never: differences to a snapshot of before
	// that have no meaning.
	Replaced ticks.Ticks
	// Blocks is the number of blocks of an append blob.
	Blocks int64
	// Sealed is set for an append blob that takes no more blocks.
	Sealed bool
	// Lake is set for a file that Path Create made: only Append and Flush Data of the dfs endpoint add to it, and only
	// blocks to others. Either endpoint overwrites it.
	Lake bool

	Copy       CopyState
	Encryption encryption.ID
	// Cipher is the cipher of the content, once a request unlocked it; nil for content that is not encrypted. It is not
	// stored.
	Cipher cipher.Block

	// Incremental is set for the destination of incremental copies: its snapshots hold the copied content, and the blob
	// itself is not read or written.
	Incremental Incremental

	// Expires is the time at which the blob expires, 0 for never. Accessed is when it was last read, where that is
	// tracked.
	Expires, Accessed ticks.Ticks

	// Deleted is the time at which the blob was soft-deleted, and keptDays for how long it is kept; 0 for one that is
	// there.
	Deleted  ticks.Ticks
	KeptDays int64

	// Version is the version ID: in the base slot, of the current version; elsewhere it is the slot. 0 for a snapshot, and
	// for a base blob that was written while no versions were kept.
	Version ticks.Ticks
	Protection

	// Node is set for a directory or file of a tree.
	Node *Node

	// Slot is the position of the record; it is stored in the key.
	Slot Slot
}

// Headers are the properties of a blob that a client sets and gets back as headers.
type Headers struct {
	ContentType, Encoding, Language, CacheControl, Disposition string
	// DispositionSet is set for an empty disposition, which is returned as an empty header.
	DispositionSet bool
	// MD5 is Content-MD5 before base64, or "". A client may set one of another length than 16 bytes.
	MD5 string
}

// Base64MD5 is Content-MD5 in the form of the header, "" for none.
func (h *Headers) Base64MD5() string {
	if h.MD5 == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(h.MD5))
}

// Meta is one name and value of metadata.
type Meta struct{ Name, Value string }

// Tag is one blob index tag.
type Tag struct{ Key, Value string }

// CopyState is the last copy into the blob; zero if there was none.
type CopyState struct {
	ID, Source string
	// Status is one of the copy states.
	Status        string
	Copied, Total int64
	Completed     ticks.Ticks
	Description   string
}

// Incremental is the source of the snapshots of a blob; the zero value is a blob that is not the destination of
// incremental copies.
type Incremental struct {
	// Source is the blob, without a snapshot. last is the snapshot of it that was copied last, and to the one that it
	// became.
	Source   string
	Last, To ticks.Ticks
}

// The states of a copy.
const (
	CopyPending = "pending"
	CopySuccess = "success"
	CopyAborted = "aborted"
	CopyFailed  = "failed"
)

// Protection keeps a blob from being changed or deleted: an immutability policy, a legal hold, or both.
// https://learn.microsoft.com/azure/storage/blobs/immutable-version-level-worm-policies
type Protection struct {
	// Until is the end of the immutability policy in whole seconds, 0 without one. A locked policy can only be prolonged.
	Until  ticks.Ticks
	Locked bool
	Hold   bool
}

// CheckDeletable returns an error if a policy or legal hold forbids deletion.
func (p *Protection) CheckDeletable(now ticks.Ticks) error {
	switch {
	case p.Hold:
		return ErrLegalHold
	case now < p.Until:
		return ErrImmutable
	}
	return nil
}

// CheckChangeable returns an error if a policy or legal hold forbids changes in place. A policy forbids them even after
// its expiry.
func (p *Protection) CheckChangeable() error {
	switch {
	case p.Hold:
		return ErrLegalHold
	case p.Until != 0:
		return ErrImmutable
	}
	return nil
}

// Mode is the value of x-ms-immutability-policy-mode.
func (p *Protection) Mode() string {
	switch {
	case p.Until == 0:
		return ""
	case p.Locked:
		return "locked"
	}
	return "unlocked"
}
