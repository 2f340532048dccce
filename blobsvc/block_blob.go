package blobsvc

import (
	"bytes"
	"encoding/base64"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Limits of block blobs.
// https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs--append-blobs--and-page-blobs
const (
	maxBlockID           = 64      // bytes of a block id, before base64
	MaxCommittedBlocks   = 50_000  // blocks in a block list
	maxUncommittedBlocks = 100_000 // uncommitted blocks of one blob
	maxBlockListBody     = 16 * mib
)

// contentHeaders reads the properties that a client gives a new blob. standard takes the HTTP headers where the x-ms-blob-
// ones are absent, as Put Blob does; elsewhere they describe the request's own body.
func (c *call) contentHeaders(standard bool) (h Headers, err error) {
	pick := func(own, http string) string {
		if s := c.Header(own); s != "" || !standard || http == "" {
			return s
		}
		return c.Header(http)
	}
	h.ContentType = pick("X-Ms-Blob-Content-Type", "Content-Type")
	h.Encoding = pick("X-Ms-Blob-Content-Encoding", "Content-Encoding")
	h.Language = pick("X-Ms-Blob-Content-Language", "Content-Language")
	h.CacheControl = pick("X-Ms-Blob-Cache-Control", "Cache-Control")
	h.Disposition = c.Header("X-Ms-Blob-Content-Disposition")
	h.DispositionSet = c.HasHeader("X-Ms-Blob-Content-Disposition")
	if s := c.Header("X-Ms-Blob-Content-Md5"); s != "" {
		b, err := parseMD5(s)
		if err != nil {
			return h, err
		}
		h.MD5 = string(b)
	}
	return h, nil
}

// defaultType is the content type of a blob that was given none.
const defaultType = "application/octet-stream"

// putBlob: https://learn.microsoft.com/rest/api/storageservices/put-blob
func (s *Service) putBlob(c *call) error {
	switch kind, ok := ParseKind(c.Header("X-Ms-Blob-Type")); {
	case !c.HasHeader("X-Ms-Blob-Type"):
		return wire.MissingHeader("x-ms-blob-type")
	case !ok:
		return wire.InvalidHeader("x-ms-blob-type", c.Header("X-Ms-Blob-Type"))
	case kind == PageBlob:
		return s.createPageBlob(c)
	case kind == AppendBlob:
		return s.createAppendBlob(c)
	}
	return s.putBlockBlob(c)
}

// newBlob reads what the operations that create a blob have in common.
func (c *call) newBlob(kind Kind, standard bool) (b Blob, p Preconditions, err error) {
	b.Kind = kind
	if p, err = c.preconditions(); err != nil {
		return b, p, err
	}
	if b.Headers, err = c.contentHeaders(standard); err != nil {
		return b, p, err
	}
	if b.Headers.ContentType == "" {
		b.Headers.ContentType = defaultType
	}
	if b.Metadata, err = c.Metadata(); err != nil {
		return b, p, err
	}
	if b.Tier, err = c.newTier(kind); err != nil {
		return b, p, err
	}
	if b.Protection, err = c.newProtection(); err != nil {
		return b, p, err
	}
	if b.Expires, _, err = c.expiry(c.now()); err != nil {
		return b, p, err
	}
	b.Tags, err = c.headerTags()
	return b, p, err
}

// mayWrite says early whether a body is worth receiving; the transaction after it decides.
func (s *Service) mayWrite(c *call, p *Preconditions) error {
	return s.db.View(func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		var b Blob
		switch err := getBlob(tx, gen, c.blob, baseSlot, &b); err {
		case nil:
			return p.checkWrite(&b, c.now())
		case errBlobNotFound:
			return p.checkCreate()
		default:
			return err
		}
	})
}

// earlyCheck is the size in bytes from which on a body is received only after the preconditions were found to hold.
const earlyCheck = 1 * mib

// replace writes b over whatever has the name now, if the preconditions let it. The lease, and the creation time of a blob
// that exists, stay; snapshots and versions stay; uncommitted blocks go. b was changed at a time of its own, which becomes
// the id of its version.
func (s *Service) replace(tx *store.Tx, c *call, p *Preconditions, b *Blob) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old Blob
	err = loadBlob(tx, gen, c.blob, baseSlot, &old)
	there := err == nil && old.Deleted == 0
	switch {
	case err != nil && err != errBlobNotFound:
		return err
	case there:
		// The permission to create is none to overwrite.
		if c.identity.Holds(auth.Need{On: auth.OnObject, Any: "w"}) != nil {
			return errUnauthorizedBlobOverwrite
		}
		err = p.checkWrite(&old, c.now())
	default:
		err = p.checkCreate()
	}
	if err != nil {
		return err
	}
	switch {
	case there && s.versioning(c) && b.Kind != old.Kind:
		return errInvalidBlobType
	case there && !s.staysVersion(c, &old) && old.checkDeletable(c.now()) != nil:
		return old.checkDeletable(c.now())
	case there:
		b.Lease, b.Created = old.Lease, old.Created
		s.unindexTags(tx, c.Account, gen, c.blob, &old)
	default:
		if err := s.sameKindAsVersions(tx, c, gen, b.Kind); err != nil {
			return err
		}
	}
	if b.Protection != (Protection{}) {
		if err := c.mayProtect(tx); err != nil {
			return err
		}
	}
	s.numberVersion(c, b, b.Changed)
	if there {
		c.before.was(&old, baseSlot)
	}
	switch {
	case there && s.staysVersion(c, &old):
		c.before.version = retire(tx, gen, c.blob, old)
	case old.Deleted != 0 || there && s.retentionDays(c.Account) > 0:
		c.before.softDeleted, c.before.snapshot = true, s.setAside(tx, c, gen, &old)
	case there:
		c.freed += old.Length
		old.content.drop(tx)
	}
	discardBlocks(tx, gen, c.blob)
	s.indexTags(tx, c.Account, gen, c.blob, b)
	if s.managed(c).AccessTimes {
		b.Accessed = b.Changed
	}
	putBlob(tx, gen, c.blob, baseSlot, b)
	s.expireLater(tx, c, gen, b)
	c.expires = b.Expires != 0
	what := eventCreated
	if b.Copy.Status == CopyPending {
		what = eventStarted
	}
	s.note(tx, c, what, baseSlot, b)
	return nil
}

func (s *Service) putBlockBlob(c *call) error {
	n, err := c.contentLength(c.byVersion(5000*mib, 256*mib, 64*mib))
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(BlockBlob, true)
	if err != nil {
		return err
	}
	if n >= earlyCheck {
		if err := s.mayWrite(c, &p); err != nil {
			return c.unread(err)
		}
	}
	up, err := s.receive(c, n, true)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.commitWhole(c, &p, b, up); err != nil {
		return err
	}
	if up.HasCRC64 {
		c.Set("x-ms-content-crc64", formatCRC(up.CRC64))
	}
	return c.Status(http.StatusCreated)
}

// commitWhole makes b, with all that was received as its content, what has the call's name, and sends the headers that say so.
func (s *Service) commitWhole(c *call, p *Preconditions, b Blob, up *content.Upload) error {
	if b.Headers.MD5 == "" {
		b.Headers.MD5 = string(up.MD5)
	}
	b.Created = s.ticks.Next(c.Now)
	b.Changed = b.Created
	if b.Tier != "" {
		b.TierChanged = b.Created
	}
	err := s.update(c, func(tx *store.Tx) error {
		b := b
		b.Encryption = up.Encryption()
		b.content, b.Length = layOut(tx, up.Pieces())
		return s.replace(tx, c, p, &b)
	})
	if err != nil {
		return err
	}
	c.sendVersion(b.Changed)
	c.sendEncrypted()
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.MD5))
	return nil
}

// blockID reads the blockid parameter.
func (c *call) blockID() (string, error) {
	if !c.Query.Has("blockid") {
		return "", wire.MissingQuery("blockid")
	}
	s := c.Query.Get("blockid")
	id, ok := parseBlockID(s)
	if !ok {
		return "", invalidQuery("blockid", s)
	}
	return id, nil
}

func parseBlockID(s string) (string, bool) {
	if len(s) > 4*((maxBlockID+2)/3) {
		return "", false
	}
	id, err := base64.StdEncoding.DecodeString(s)
	return string(id), err == nil && len(id) > 0 && len(id) <= maxBlockID
}

// putBlock: https://learn.microsoft.com/rest/api/storageservices/put-block
func (s *Service) putBlock(c *call) error {
	n, err := c.contentLength(c.byVersion(4000*mib, 100*mib, 4*mib))
	if err != nil {
		return err
	}
	id, err := c.blockID()
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.InvalidHeader("Content-Length", "0")
	}
	lease, err := c.leaseID("X-Ms-Lease-Id")
	if err != nil {
		return err
	}
	if n >= earlyCheck {
		err := s.db.View(func(tx *store.Tx) error {
			_, err := s.blockTarget(tx, c, lease)
			return err
		})
		if err != nil {
			return c.unread(err)
		}
	}
	up, err := s.receive(c, n, false)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.stage(c, lease, id, up); err != nil {
		return err
	}
	c.sendHashes(up)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// blockTarget finds the blob for which a block is staged: none, or a block blob whose lease the caller holds.
func (s *Service) blockTarget(tx *store.Tx, c *call, lease string) (gen uint64, err error) {
	if gen, err = containerGen(tx, c.Account, c.container); err != nil {
		return 0, err
	}
	var b Blob
	switch err := getBlob(tx, gen, c.blob, baseSlot, &b); err {
	case nil:
		if b.Kind != BlockBlob {
			return 0, errInvalidBlobType
		}
		return gen, b.Lease.checkWrite(lease, c.now(), &blobLeaseErrors)
	case errBlobNotFound:
		if lease != "" {
			return 0, blobLeaseErrors.notPresent
		}
		return gen, nil
	default:
		return 0, err
	}
}

// stage records an uncommitted block.
func (s *Service) stage(c *call, lease, id string, up *content.Upload) error {
	value := encodeBlock(up.Pieces()[0])
	return s.db.Update(func(tx *store.Tx) error {
		gen, err := s.blockTarget(tx, c, lease)
		if err != nil {
			return err
		}
		key := pendingKey(gen, c.blob)
		var p pendingRecord
		if v := tx.Get(pendingBucket, key); v != nil {
			if p, err = decodePending(v); err != nil {
				return err
			}
		} else {
			p = pendingRecord{set: nextID(tx), idLength: len(id)}
		}
		if p.idLength != len(id) {
			return errInvalidBlobOrBlock
		}
		block := blockKey(p.set, id)
		if tx.Get(blocksBucket, block) == nil {
			if p.count >= maxUncommittedBlocks {
				return errBlockCountExceedsLimit
			}
			p.count++
		}
		p.last = c.now()
		tx.Put(pendingBucket, key, p.encode())
		tx.Put(blocksBucket, block, value)
		return nil
	})
}

// discardAtOnce is up to how many uncommitted blocks are removed in the transaction that commits or discards them; more are
// left to the background.
const discardAtOnce = 64

// discardBlocks drops the uncommitted blocks of a name.
func discardBlocks(tx *store.Tx, gen uint64, name string) {
	key := pendingKey(gen, name)
	v := tx.Get(pendingBucket, key)
	if v == nil {
		return
	}
	tx.Delete(pendingBucket, key)
	if p, err := decodePending(v); err == nil {
		dropBlockSet(tx, p)
	}
}

func dropBlockSet(tx *store.Tx, p pendingRecord) {
	if p.count > discardAtOnce {
		tx.Put(garbageBucket, garbageKey(garbageBlocks, p.set), []byte{recordVersion})
		return
	}
	scope := generationPrefix(p.set)
	var keys [][]byte
	cur := tx.Cursor(blocksBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		tx.Delete(blocksBucket, k)
	}
}
