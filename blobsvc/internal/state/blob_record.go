package state

import (
	"bytes"
	"crypto/cipher"
	"encoding/base64"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
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
	content pieceList

	Headers  Headers
	Metadata []Meta
	Tags     []Tag
	Lease    Lease

	// Tier is the access tier that was set, "" where the account's default is inferred; tierChanged is when.
	Tier        string
	TierChanged ticks.Ticks
	// RehydrateTo is the tier that an archived blob is on its way to.
	RehydrateTo string
	// RehydrateHigh is set if the rehydration was asked for with high priority.
	RehydrateHigh bool

	// Sequence is the sequence number of a page blob.
	Sequence int64
	// Blocks is the number of blocks of an append blob.
	Blocks int64
	// Sealed is set for an append blob that takes no more blocks.
	Sealed bool
	// Lake is set for a file that Path Create made: only Append and Flush of [Paths] add to it, and only blocks to others.
	// Either endpoint overwrites it.
	Lake bool

	Copy       CopyState
	Encryption encryption.ID
	// opened is the cipher of the content, once a request unlocked it; nil for content that is not encrypted. It is not
	// stored.
	opened cipher.Block

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

	// slot is the position of the record; it is stored in the key.
	slot Slot
}

// Headers are the properties of a blob that a client sets and gets back as headers.
type Headers struct {
	ContentType, Encoding, Language, CacheControl, Disposition string
	// DispositionSet is set for an empty disposition, which is returned as an empty header.
	DispositionSet bool
	// MD5 is Content-MD5 before base64, or "". A client may set one of another length than 16 bytes.
	MD5 string
}

// Base64MD5 is Content-MD5 as the header has it, "" for none.
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

// The tags of a blob record.
const (
	btKind        = 1
	btCreated     = 2
	btChanged     = 3
	btLength      = 4
	btContentID   = 5
	btPieces      = 6
	btType        = 7
	btEncoding    = 8
	btLanguage    = 9
	btMD5         = 10
	btCache       = 11
	btDisposition = 12
	btMetadata    = 13
	btTags        = 14
	btLease       = 15
	btTier        = 16
	btTierChanged = 17
	btRehydrateTo = 18
	btSequence    = 19
	btBlocks      = 20
	btSealed      = 21
	btCopy        = 22
	btDeleted     = 23
	btKeptDays    = 24
	btVersion     = 25
	btUntil       = 26
	btLocked      = 27
	btHold        = 28
	btRehydrateHi = 29
	btExpires     = 40
	btAccessed    = 41
	btIncremental = 42
	btKey         = 50
	btScope       = 51
	btSeals       = 52
	btNode        = 60
	btLake        = 61
)

func (b *Blob) encode() []byte {
	e := newEncoder(160)
	e.uint(btKind, uint64(b.Kind))
	e.uint(btCreated, uint64(b.Created))
	if b.Changed != b.Created { // most blobs are written once
		e.uint(btChanged, uint64(b.Changed))
	}
	e.uint(btLength, uint64(b.Length))
	e.uint(btContentID, b.content.id)
	if len(b.content.pieces) > 0 {
		e.tag(btPieces)
		e.pieces(b.content.pieces)
	}
	e.text(btKey, b.Encryption.KeySHA256)
	e.text(btScope, b.Encryption.Scope)
	if sealed(b.content.pieces) {
		seals := newEncoder(20 * len(b.content.pieces))
		seals.seals(b.content.pieces)
		e.text(btSeals, string(seals.b))
	}
	e.text(btType, b.Headers.ContentType)
	e.text(btEncoding, b.Headers.Encoding)
	e.text(btLanguage, b.Headers.Language)
	e.text(btMD5, b.Headers.MD5)
	e.text(btCache, b.Headers.CacheControl)
	if b.Headers.DispositionSet {
		e.tag(btDisposition)
		e.string(b.Headers.Disposition)
	}
	e.metadata(btMetadata, b.Metadata)
	if len(b.Tags) > 0 {
		e.tag(btTags)
		e.uvarint(uint64(len(b.Tags)))
		for _, t := range b.Tags {
			e.string(t.Key)
			e.string(t.Value)
		}
	}
	e.lease(btLease, b.Lease)
	e.text(btTier, b.Tier)
	e.uint(btTierChanged, uint64(b.TierChanged))
	e.text(btRehydrateTo, b.RehydrateTo)
	e.bool(btRehydrateHi, b.RehydrateHigh)
	e.uint(btSequence, uint64(b.Sequence))
	e.uint(btBlocks, uint64(b.Blocks))
	e.bool(btSealed, b.Sealed)
	if c := &b.Copy; c.ID != "" {
		e.tag(btCopy)
		e.string(c.ID)
		e.string(c.Source)
		e.string(c.Status)
		e.uvarint(uint64(c.Copied))
		e.uvarint(uint64(c.Total))
		e.uvarint(uint64(c.Completed))
		e.string(c.Description)
	}
	e.uint(btDeleted, uint64(b.Deleted))
	e.uint(btKeptDays, uint64(b.KeptDays))
	e.uint(btVersion, uint64(b.Version))
	e.uint(btUntil, uint64(b.Until))
	e.bool(btLocked, b.Locked)
	e.bool(btHold, b.Hold)
	e.uint(btExpires, uint64(b.Expires))
	e.uint(btAccessed, uint64(b.Accessed))
	if i := &b.Incremental; i.Source != "" {
		e.tag(btIncremental)
		e.string(i.Source)
		e.uvarint(uint64(i.Last))
		e.uvarint(uint64(i.To))
	}
	e.node(b.Node)
	e.bool(btLake, b.Lake)
	return e.b
}

// decodeBlob reads a record. The result shares nothing with v.
func decodeBlob(v []byte, b *Blob) error { return decodeBlobFrom(newDecoder(v), b, true) }

// decodeBlobHead is decodeBlob without the pieces.
func decodeBlobHead(v []byte, b *Blob) error { return decodeBlobFrom(newDecoder(v), b, false) }

func decodeBlobFrom(d decoder, b *Blob, pieces bool) error {
	*b = Blob{}
	for d.more() {
		switch d.byte() {
		case btKind:
			b.Kind = Kind(d.uint())
		case btCreated:
			b.Created = ticks.Ticks(d.uint())
			b.Changed = b.Created
		case btChanged:
			b.Changed = ticks.Ticks(d.uint())
		case btLength:
			b.Length = int64(d.uint())
		case btContentID:
			b.content.id = d.uint()
		case btPieces:
			if pieces {
				b.content.pieces = d.pieces()
			} else {
				d.skipPieces()
			}
		case btKey:
			b.Encryption.KeySHA256 = d.string()
		case btScope:
			b.Encryption.Scope = d.string()
		case btSeals:
			seals := decoder{s: d.string()}
			if pieces {
				seals.byte() // the version, the same for all
				seals.seals(b.content.pieces)
				d.bad = d.bad || seals.bad
			}
		case btType:
			b.Headers.ContentType = d.string()
		case btEncoding:
			b.Headers.Encoding = d.string()
		case btLanguage:
			b.Headers.Language = d.string()
		case btMD5:
			b.Headers.MD5 = d.string()
		case btCache:
			b.Headers.CacheControl = d.string()
		case btDisposition:
			b.Headers.Disposition, b.Headers.DispositionSet = d.string(), true
		case btMetadata:
			b.Metadata = d.metadata()
		case btTags:
			b.Tags = make([]Tag, d.count(2))
			for i := range b.Tags {
				b.Tags[i] = Tag{d.string(), d.string()}
			}
		case btLease:
			b.Lease = d.lease()
		case btTier:
			b.Tier = d.string()
		case btTierChanged:
			b.TierChanged = ticks.Ticks(d.uint())
		case btRehydrateTo:
			b.RehydrateTo = d.string()
		case btRehydrateHi:
			b.RehydrateHigh = d.bool()
		case btSequence:
			b.Sequence = int64(d.uint())
		case btBlocks:
			b.Blocks = int64(d.uint())
		case btSealed:
			b.Sealed = d.bool()
		case btCopy:
			b.Copy = CopyState{d.string(), d.string(), d.string(), int64(d.uint()), int64(d.uint()), ticks.Ticks(d.uint()),
				d.string()}
		case btDeleted:
			b.Deleted = ticks.Ticks(d.uint())
		case btKeptDays:
			b.KeptDays = int64(d.uint())
		case btVersion:
			b.Version = ticks.Ticks(d.uint())
		case btUntil:
			b.Until = ticks.Ticks(d.uint())
		case btLocked:
			b.Locked = d.bool()
		case btHold:
			b.Hold = d.bool()
		case btExpires:
			b.Expires = ticks.Ticks(d.uint())
		case btAccessed:
			b.Accessed = ticks.Ticks(d.uint())
		case btIncremental:
			b.Incremental = Incremental{d.string(), ticks.Ticks(d.uint()), ticks.Ticks(d.uint())}
		case btNode:
			b.Node = d.node()
		case btLake:
			b.Lake = d.bool()
		default:
			d.fail()
		}
	}
	if !d.bad && (b.Kind < BlockBlob || b.Kind > AppendBlob || b.Length < 0) {
		d.fail()
	}
	return d.err()
}

// getBlob reads the record in a slot. It fails with errBlobNotFound, also for a blob that was soft-deleted, or has
// expired at now.
func getBlob(tx *store.Tx, it item, slot Slot, now ticks.Ticks, b *Blob) error {
	err := loadBlob(tx, it, slot, b)
	switch {
	case err == nil && b.Deleted != 0:
		*b = Blob{}
		return ErrSoftDeleted
	case err == nil && b.expired(now):
		return notFound(b)
	}
	return err
}

// loadBlob is getBlob for soft-deleted and expired blobs as well.
func loadBlob(tx *store.Tx, it item, slot Slot, b *Blob) error {
	v := tx.Get(blobsBucket, blobKey(it, slot))
	if v == nil {
		return ErrBlobNotFound
	}
	err := decodeBlob(v, b)
	b.slot = slot
	return err
}

// eachRecord calls fn for all records of a blob's name, deleted or not: snapshots and versions by time, the base blob
// last. The records have no pieces.
func eachRecord(tx *store.Tx, it item, fn func(b *Blob) (more bool, err error)) error {
	var b Blob
	scope := namePrefix(it)
	cur := tx.Cursor(blobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := splitBlobKey(k)
		if err == nil {
			err = decodeBlobHead(v, &b)
		}
		if err != nil {
			return err
		}
		b.slot = slot
		if more, err := fn(&b); err != nil || !more {
			return err
		}
	}
	return nil
}

func putBlob(tx *store.Tx, it item, slot Slot, b *Blob) {
	tx.Put(blobsBucket, blobKey(it, slot), b.encode())
}
