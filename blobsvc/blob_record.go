package blobsvc

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// blobKind is the type of a blob.
type blobKind byte

const (
	blockBlob blobKind = iota + 1
	pageBlob
	appendBlob
)

// String is the value of x-ms-blob-type.
func (k blobKind) String() string {
	switch k {
	case blockBlob:
		return "BlockBlob"
	case pageBlob:
		return "PageBlob"
	case appendBlob:
		return "AppendBlob"
	}
	return ""
}

func parseBlobKind(s string) (blobKind, bool) {
	switch s {
	case "BlockBlob":
		return blockBlob, true
	case "PageBlob":
		return pageBlob, true
	case "AppendBlob":
		return appendBlob, true
	}
	return 0, false
}

// blobRecord is the state of one committed blob, or of one snapshot or version of it.
type blobRecord struct {
	kind blobKind
	// created is when the blob came to be; changed is when it was last written: Last-Modified and the entity tag.
	created, changed ticks.Ticks
	// length is the size of the content in bytes.
	length  int64
	content pieceList

	headers  contentHeaders
	metadata []wire.Meta
	tags     []tag
	lease    lease

	// tier is the access tier that was set, "" where the account's default is inferred; tierChanged is when.
	tier        string
	tierChanged ticks.Ticks
	// rehydrateTo is the tier that an archived blob is on its way to.
	rehydrateTo string

	// sequence is the sequence number of a page blob.
	sequence int64
	// blocks is the number of blocks of an append blob.
	blocks int64
	// sealed is set for an append blob that takes no more blocks.
	sealed bool

	copy       copyRecord
	encryption encryption.ID
	// opened is what a request unlocked the content with, nil for content in the clear; it is not stored.
	opened cipher.Block

	// incremental is set for the destination of incremental copies: its snapshots are what was copied, and itself is not
	// read or written.
	incremental incremental

	// expires is when the blob goes by itself, 0 for never; accessed when it was last read, where that is tracked.
	expires, accessed ticks.Ticks

	// deleted is when the blob was soft-deleted, and keptDays for how long it is kept; 0 for one that is there.
	deleted  ticks.Ticks
	keptDays int64

	// version is the id of a version: in the base slot that of the current one, elsewhere the slot. 0 for a snapshot, and
	// for a base blob that was written while no versions were kept.
	version ticks.Ticks
	protection
}

// contentHeaders are the properties of a blob that a client sets and gets back as headers.
type contentHeaders struct {
	contentType, encoding, language, cacheControl, disposition string
	// dispositionSet tells an empty disposition, which is sent back as an empty header, from none.
	dispositionSet bool
	// md5 is the 16 bytes of Content-MD5, or "".
	md5 string
}

// tag is one blob index tag.
type tag struct{ key, value string }

// copyRecord is the last copy into the blob; zero if there was none.
type copyRecord struct {
	id, source string
	// status is one of the copy states.
	status      string
	copied, of  int64
	completed   ticks.Ticks
	description string
}

// incremental is where the snapshots of a blob come from; zero for a blob that is none of incremental copies.
type incremental struct {
	// source is the blob, without a snapshot. last is the snapshot of it that was copied last, and to the one that it
	// became.
	source   string
	last, to ticks.Ticks
}

// The states of a copy.
const (
	copyPending = "pending"
	copySuccess = "success"
	copyAborted = "aborted"
	copyFailed  = "failed"
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
	btExpires     = 40
	btAccessed    = 41
	btIncremental = 42
	btKey         = 50
	btScope       = 51
	btSeals       = 52
)

func (b *blobRecord) encode() []byte {
	e := newEncoder(160)
	e.uint(btKind, uint64(b.kind))
	e.uint(btCreated, uint64(b.created))
	if b.changed != b.created { // most blobs are written once
		e.uint(btChanged, uint64(b.changed))
	}
	e.uint(btLength, uint64(b.length))
	e.uint(btContentID, b.content.id)
	if len(b.content.pieces) > 0 {
		e.tag(btPieces)
		e.pieces(b.content.pieces)
	}
	e.text(btKey, b.encryption.KeySHA256)
	e.text(btScope, b.encryption.Scope)
	if sealed(b.content.pieces) {
		seals := newEncoder(20 * len(b.content.pieces))
		seals.seals(b.content.pieces)
		e.text(btSeals, string(seals.b))
	}
	e.text(btType, b.headers.contentType)
	e.text(btEncoding, b.headers.encoding)
	e.text(btLanguage, b.headers.language)
	e.text(btMD5, b.headers.md5)
	e.text(btCache, b.headers.cacheControl)
	if b.headers.dispositionSet {
		e.tag(btDisposition)
		e.string(b.headers.disposition)
	}
	e.metadata(btMetadata, b.metadata)
	if len(b.tags) > 0 {
		e.tag(btTags)
		e.uvarint(uint64(len(b.tags)))
		for _, t := range b.tags {
			e.string(t.key)
			e.string(t.value)
		}
	}
	e.lease(btLease, b.lease)
	e.text(btTier, b.tier)
	e.uint(btTierChanged, uint64(b.tierChanged))
	e.text(btRehydrateTo, b.rehydrateTo)
	e.uint(btSequence, uint64(b.sequence))
	e.uint(btBlocks, uint64(b.blocks))
	e.bool(btSealed, b.sealed)
	if c := &b.copy; c.id != "" {
		e.tag(btCopy)
		e.string(c.id)
		e.string(c.source)
		e.string(c.status)
		e.uvarint(uint64(c.copied))
		e.uvarint(uint64(c.of))
		e.uvarint(uint64(c.completed))
		e.string(c.description)
	}
	e.uint(btDeleted, uint64(b.deleted))
	e.uint(btKeptDays, uint64(b.keptDays))
	e.uint(btVersion, uint64(b.version))
	e.uint(btUntil, uint64(b.until))
	e.bool(btLocked, b.locked)
	e.bool(btHold, b.hold)
	e.uint(btExpires, uint64(b.expires))
	e.uint(btAccessed, uint64(b.accessed))
	if i := &b.incremental; i.source != "" {
		e.tag(btIncremental)
		e.string(i.source)
		e.uvarint(uint64(i.last))
		e.uvarint(uint64(i.to))
	}
	return e.b
}

// decodeBlob reads a record. The result shares nothing with v.
func decodeBlob(v []byte, b *blobRecord) error { return decodeBlobTo(v, b, true) }

// decodeBlobHead is decodeBlob without the pieces, for listings.
func decodeBlobHead(v []byte, b *blobRecord) error { return decodeBlobTo(v, b, false) }

func decodeBlobTo(v []byte, b *blobRecord, pieces bool) error {
	*b = blobRecord{}
	d := newDecoder(v)
	for d.more() {
		switch d.byte() {
		case btKind:
			b.kind = blobKind(d.uint())
		case btCreated:
			b.created = ticks.Ticks(d.uint())
			b.changed = b.created
		case btChanged:
			b.changed = ticks.Ticks(d.uint())
		case btLength:
			b.length = int64(d.uint())
		case btContentID:
			b.content.id = d.uint()
		case btPieces:
			if pieces {
				b.content.pieces = d.pieces()
			} else {
				d.skipPieces()
			}
		case btKey:
			b.encryption.KeySHA256 = d.string()
		case btScope:
			b.encryption.Scope = d.string()
		case btSeals:
			seals := decoder{s: d.string()}
			if pieces {
				seals.byte() // the version, which is that of all
				seals.seals(b.content.pieces)
				d.bad = d.bad || seals.bad
			}
		case btType:
			b.headers.contentType = d.string()
		case btEncoding:
			b.headers.encoding = d.string()
		case btLanguage:
			b.headers.language = d.string()
		case btMD5:
			b.headers.md5 = d.string()
		case btCache:
			b.headers.cacheControl = d.string()
		case btDisposition:
			b.headers.disposition, b.headers.dispositionSet = d.string(), true
		case btMetadata:
			b.metadata = d.metadata()
		case btTags:
			b.tags = make([]tag, d.count(2))
			for i := range b.tags {
				b.tags[i] = tag{d.string(), d.string()}
			}
		case btLease:
			b.lease = d.lease()
		case btTier:
			b.tier = d.string()
		case btTierChanged:
			b.tierChanged = ticks.Ticks(d.uint())
		case btRehydrateTo:
			b.rehydrateTo = d.string()
		case btSequence:
			b.sequence = int64(d.uint())
		case btBlocks:
			b.blocks = int64(d.uint())
		case btSealed:
			b.sealed = d.bool()
		case btCopy:
			b.copy = copyRecord{d.string(), d.string(), d.string(), int64(d.uint()), int64(d.uint()), ticks.Ticks(d.uint()), d.string()}
		case btDeleted:
			b.deleted = ticks.Ticks(d.uint())
		case btKeptDays:
			b.keptDays = int64(d.uint())
		case btVersion:
			b.version = ticks.Ticks(d.uint())
		case btUntil:
			b.until = ticks.Ticks(d.uint())
		case btLocked:
			b.locked = d.bool()
		case btHold:
			b.hold = d.bool()
		case btExpires:
			b.expires = ticks.Ticks(d.uint())
		case btAccessed:
			b.accessed = ticks.Ticks(d.uint())
		case btIncremental:
			b.incremental = incremental{d.string(), ticks.Ticks(d.uint()), ticks.Ticks(d.uint())}
		default:
			d.fail()
		}
	}
	if !d.bad && (b.kind < blockBlob || b.kind > appendBlob || b.length < 0) {
		d.fail()
	}
	return d.err()
}

// getBlob reads a blob, or its snapshot in slot. It fails with errBlobNotFound, also for one that was soft-deleted.
func getBlob(tx *store.Tx, gen uint64, name string, slot uint64, b *blobRecord) error {
	err := getAnyBlob(tx, gen, name, slot, b)
	if err == nil && b.deleted != 0 {
		*b = blobRecord{}
		return errBlobNotFound
	}
	return err
}

// getAnyBlob is getBlob for soft-deleted blobs, too.
func getAnyBlob(tx *store.Tx, gen uint64, name string, slot uint64, b *blobRecord) error {
	v := tx.Get(blobsBucket, blobKey(gen, name, slot))
	if v == nil {
		return errBlobNotFound
	}
	return decodeBlob(v, b)
}

// eachSlot calls fn for everything under a blob's name, deleted or not: snapshots and versions by time, the base blob last.
// The records have no pieces.
func eachSlot(tx *store.Tx, gen uint64, name string, fn func(slot uint64, b *blobRecord) (more bool, err error)) error {
	var b blobRecord
	scope := namePrefix(gen, name)
	cur := tx.Cursor(blobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := parseBlobKey(k)
		if err == nil {
			err = decodeBlobHead(v, &b)
		}
		if err != nil {
			return err
		}
		if more, err := fn(slot, &b); err != nil || !more {
			return err
		}
	}
	return nil
}

func putBlob(tx *store.Tx, gen uint64, name string, slot uint64, b *blobRecord) {
	tx.Put(blobsBucket, blobKey(gen, name, slot), b.encode())
}

// pendingRecord sums up the uncommitted blocks of one blob name.
type pendingRecord struct {
	// set is the first part of the keys of the blocks.
	set uint64
	// last is when the last block came; a week later all are dropped.
	last ticks.Ticks
	// count is the number of blocks, idLength the length of their ids in bytes, before base64.
	count    int64
	idLength int
}

func (p pendingRecord) encode() []byte {
	b := append(make([]byte, 0, 16), recordVersion)
	b = binary.AppendUvarint(b, p.set)
	b = binary.AppendUvarint(b, uint64(p.last))
	b = binary.AppendUvarint(b, uint64(p.count))
	return binary.AppendUvarint(b, uint64(p.idLength))
}

func decodePending(v []byte) (pendingRecord, error) {
	d := newDecoder(v)
	p := pendingRecord{set: d.uint(), last: ticks.Ticks(d.uint()), count: int64(d.uint()), idLength: int(d.uint())}
	return p, d.err()
}

// encodeBlock is the record of an uncommitted block: its piece, without the id, which is in the key.
func encodeBlock(p content.Piece) []byte {
	e := newEncoder(32)
	e.uvarint(uint64(p.Length))
	e.slices(p.Slices)
	if p.Seal.IV != "" {
		e.string(p.Seal.IV)
		e.string(p.Encryption.KeySHA256)
		e.string(p.Encryption.Scope)
	}
	return e.b
}

func decodeBlock(v []byte) (p content.Piece, err error) {
	d := newDecoder(v)
	p.Length = int64(d.uint())
	p.Slices = d.slices()
	if d.more() {
		p.Seal.IV = d.string()
		p.Encryption = encryption.ID{KeySHA256: d.string(), Scope: d.string()}
	}
	return p, d.err()
}
