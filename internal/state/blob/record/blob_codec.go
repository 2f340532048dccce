package record

import "github.com/lazuli-storage/lazuli/internal/storage/ticks"

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
	btReplaced    = 62
)

func (b *Blob) Encode() []byte {
	e := newEncoder(160)
	e.uint(btKind, uint64(b.Kind))
	e.uint(btCreated, uint64(b.Created))
	if b.Changed != b.Created { // most blobs are written once
		e.uint(btChanged, uint64(b.Changed))
	}
	e.uint(btLength, uint64(b.Length))
	e.uint(btContentID, b.Content.ID)
	if len(b.Content.pieces) > 0 {
		e.tag(btPieces)
		e.pieces(b.Content.pieces)
	}
	e.text(btKey, b.Encryption.KeySHA256)
	e.text(btScope, b.Encryption.Scope)
	// Beside the pieces and not in them: a list without encryption has the bytes that it had before there was any.
	if sealed(b.Content.pieces) {
		seals := newEncoder(20 * len(b.Content.pieces))
		seals.seals(b.Content.pieces)
		e.text(btSeals, string(seals.b))
	}
	e.text(btType, b.Headers.ContentType)
	e.text(btEncoding, b.Headers.Encoding)
	e.text(btLanguage, b.Headers.Language)
	e.text(btMD5, b.Headers.MD5)
	e.text(btCache, b.Headers.CacheControl)
	// Set and empty is another state than not set; text would leave out both.
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
	e.uint(btReplaced, uint64(b.Replaced))
	return e.b
}

// DecodeBlob reads a record. The result shares nothing with v.
func DecodeBlob(v []byte, b *Blob) error { return decodeBlobFrom(newDecoder(v), b, true) }

// DecodeBlobHead is DecodeBlob without the pieces.
func DecodeBlobHead(v []byte, b *Blob) error { return decodeBlobFrom(newDecoder(v), b, false) }

func decodeBlobFrom(d decoder, b *Blob, pieces bool) error {
	*b = Blob{}
	for d.more() {
		switch d.byte() {
		case btKind:
			b.Kind = Kind(d.uint())
		case btCreated:
			b.Created = ticks.Ticks(d.uint())
			// btChanged follows if the two differ, and is left out otherwise.
			b.Changed = b.Created
		case btChanged:
			b.Changed = ticks.Ticks(d.uint())
		case btLength:
			b.Length = int64(d.uint())
		case btContentID:
			b.Content.ID = d.uint()
		case btPieces:
			if pieces {
				b.Content.pieces = d.pieces()
			} else {
				// Listings read hundreds of records and need no pieces, which are the largest part of many.
				d.skipPieces()
			}
		case btKey:
			b.Encryption.KeySHA256 = d.string()
		case btScope:
			b.Encryption.Scope = d.string()
		case btSeals:
			// The pieces came before, since tags are written in the order of Encode. A record with seals alone makes seals.bad.
			seals := decoder{s: d.string()}
			if pieces {
				seals.byte() // the version, the same for all
				seals.seals(b.Content.pieces)
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
			b.Headers.Disposition = d.string()
			b.Headers.DispositionSet = true
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
		case btReplaced:
			b.Replaced = ticks.Ticks(d.uint())
		// A field of a newer release: the record would lose it with the next write.
		default:
			d.fail()
		}
	}
	if !d.bad && (b.Kind < BlockBlob || b.Kind > AppendBlob || b.Length < 0) {
		d.fail()
	}
	return d.err()
}

// BlobHead is DecodeBlobHead with the texts in t. The metadata and the node of b are valid until the next record.
func (t *Texts) BlobHead(v []byte, b *Blob) error {
	d := t.decoder(v)
	if t.form = t.forms.decode(d, b); t.form != 0 {
		return nil
	}
	err := decodeBlobFrom(d, b, false)
	if b.Metadata != nil {
		t.metadata = b.Metadata
	}
	if err == nil {
		t.form = t.forms.take(decoder{s: d.s}, b)
	}
	return err
}

// Form is a number that is the same for records that differ in nothing but their creation, last change, length,
// content, MD5, parent and name: what was computed of the rest for one of them is right for all. It is that of the last
// record that BlobHead has read, and 0 if that has more than what most blobs have. Numbers mean nothing outside of t.
func (t *Texts) Form() uint32 { return t.form }
