package blobsvc

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/auth"
	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// copySource is the blob that x-ms-copy-source names: one of this process.
type copySource struct {
	account, container, blob string
	slot                     uint64
	// url is what the client sent, which the copy's properties repeat.
	url        string
	conditions preconditions
}

// maxCopySource is the longest x-ms-copy-source in bytes.
const maxCopySource = 2 << 10

// copySource reads x-ms-copy-source and x-ms-source-if-*, and makes sure that the caller may read the source: by the
// account key if it is the caller's own account, otherwise by the SAS in the URL or because the container is public.
// https://learn.microsoft.com/rest/api/storageservices/copy-blob#authorization
func (s *Service) copySource(c *call) (src copySource, err error) {
	text := c.Header("X-Ms-Copy-Source")
	if text == "" {
		return src, wire.MissingHeader("x-ms-copy-source")
	}
	invalid := wire.InvalidHeader("x-ms-copy-source", text)
	if len(text) > maxCopySource {
		return src, invalid
	}
	if c.HasHeader("X-Ms-Copy-Source-Authorization") {
		return src, wire.ErrNotImplemented
	}
	src.url = text
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return src, invalid
	}
	if src.conditions.Conditions, err = c.SourceConditions(); err != nil {
		return src, err
	}
	if t := c.Header("X-Ms-Source-If-Tags"); t != "" {
		if src.conditions.tags, err = parseTagCondition(t); err != nil {
			return src, err
		}
	}
	hr := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, RequestURI: u.RequestURI(), Header: http.Header{}}
	if v := c.VersionHeader; v != "" {
		hr.Header["X-Ms-Version"] = []string{v}
	}
	hr = hr.WithContext(c.HTTP.Context())
	r, err := wire.Parse(wire.Blob, hr, nil, c.Now, wire.Options{})
	if err != nil {
		return src, errSourceElsewhere
	}
	if !sameHost(u, c.HTTP.Host) || !s.serves(r.Account) {
		return src, errSourceElsewhere
	}
	at, level, err := s.resolve(r)
	if err != nil || level != onBlob {
		return src, invalid
	}
	src.account, src.container, src.blob = at.Account, at.container, at.blob
	if src.slot, err = at.slot(); err != nil {
		return src, err
	}
	if src.account == c.Account && c.identity.Mechanism == auth.SharedKey {
		return src, nil
	}
	if s.mayRead(at) != nil {
		return src, errSourceForbidden
	}
	return src, nil
}

// mayRead checks the credential in a source's URL, as the front-end does for a request.
func (s *Service) mayRead(at *call) error {
	id, err := s.callers.Authenticate(at.Request)
	if err != nil {
		return err
	}
	if name := id.PolicyID(); name != "" {
		p, found, err := s.policy(at, name)
		if err != nil {
			return err
		}
		if id, err = id.Apply(p, found, at.Now); err != nil {
			return err
		}
	}
	read := auth.Need{On: auth.OnObject, Any: "r", Public: auth.PublicBlob}
	if err := id.Check(wire.Blob, read); err != nil {
		return err
	}
	return s.admit(at, id, read)
}

var (
	// errSourceElsewhere: the source is not a blob of this process. Azure would fetch it.
	errSourceElsewhere = wire.ErrNotImplemented.WithMessage("Copy sources outside this service are not implemented.")
	// errSourceForbidden: the source needs a credential that its URL does not carry.
	errSourceForbidden = fail(http.StatusForbidden, "CannotVerifyCopySource", "This request is not authorized to perform this operation.")
)

// sameHost reports whether a source's address is this service's: the same host as the request's, or any name of this
// machine, whose port the request's host has.
func sameHost(u *url.URL, host string) bool {
	if strings.EqualFold(u.Host, host) {
		return true
	}
	_, port, _ := net.SplitHostPort(host)
	if port != u.Port() {
		return false
	}
	name := strings.ToLower(u.Hostname())
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || net.ParseIP(name).IsLoopback()
}

func (s *Service) serves(account string) bool { return s.accounts.Get(account) != nil }

// read loads the source in tx and checks its conditions.
func (src *copySource) read(tx *store.Tx, now ticks, b *blobRecord) error {
	gen, err := containerGen(tx, src.account, src.container)
	if err != nil {
		return err
	}
	if err := getBlob(tx, gen, src.blob, src.slot, b); err != nil {
		return err
	}
	if b.settle(now); b.tier == archiveTier {
		return errBlobArchived
	}
	if !src.conditions.Empty() {
		if err := src.conditions.CheckRead(b.changed.etag(), b.changed.time()); err != nil {
			return errSource{err}
		}
	}
	if src.conditions.tags != nil && !src.conditions.tags.match(b.tags) {
		return errSource{wire.ErrConditionNotMet}
	}
	return nil
}

// errSource is a condition on the source that does not hold.
type errSource struct{ error }

func (e errSource) Unwrap() error { return e.error }

// copyError is what Copy Blob answers for a source condition that does not hold.
func copyError(err error) error {
	var src errSource
	if errors.As(err, &src) {
		return errSourceConditionNotMet
	}
	return err
}

var errSourceConditionNotMet = fail(http.StatusPreconditionFailed, "SourceConditionNotMet", "The source condition specified using HTTP conditional header(s) is not met.")

// clone takes over content, type and properties of a source into b. Metadata, tags and tier of b stay where the request
// named them.
func (b *blobRecord) clone(tx *store.Tx, from *blobRecord, metadata []wire.Meta) (err error) {
	b.kind, b.length, b.sequence, b.blocks = from.kind, from.length, from.sequence, from.blocks
	b.headers = from.headers
	if b.metadata = metadata; metadata == nil {
		b.metadata = from.metadata
	}
	b.content, err = from.content.duplicate(tx, from)
	return err
}

// duplicate returns b's content for a blob that may change independently.
func (c content) duplicate(tx *store.Tx, b *blobRecord) (content, error) {
	if b.kind == blockBlob || c.id == 0 {
		return c.share(tx), nil
	}
	var list []piece
	err := c.walk(tx, 0, b.length, b.length, func(p *piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return c, err
	}
	return storePages(tx, list), nil
}

// copyBlob: https://learn.microsoft.com/rest/api/storageservices/copy-blob
// The copy refers to the source's bytes and is complete when it is answered.
func (s *Service) copyBlob(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	changed := s.ticks.next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err != nil {
		return copyError(err)
	}
	c.sendVersion(changed)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", "success")
	return c.Status(http.StatusAccepted)
}

// copyTo puts a copy of src in place. b carries what the request said about the new blob.
func (s *Service) copyTo(tx *store.Tx, c *call, src *copySource, p *preconditions, b *blobRecord, id string, changed ticks) error {
	var from blobRecord
	if err := src.read(tx, c.now(), &from); err != nil {
		return err
	}
	if b.tier != "" && from.kind != blockBlob {
		return errInvalidBlobTier
	}
	if err := s.sameKind(tx, c, from.kind); err != nil {
		return err
	}
	if err := b.clone(tx, &from, b.metadata); err != nil {
		return err
	}
	b.created, b.changed = changed, changed
	if b.tier != "" {
		b.tierChanged = changed
	}
	if c.Header("X-Ms-Seal-Blob") == "true" {
		if b.kind != appendBlob {
			return errInvalidBlobType
		}
		b.sealed = true
	}
	b.copy = copyRecord{id: id, source: src.url, status: "success", copied: from.length, of: from.length, completed: changed}
	return s.replace(tx, c, p, b)
}

// sameKind refuses to copy over a blob of another type.
func (s *Service) sameKind(tx *store.Tx, c *call, kind blobKind) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old blobRecord
	switch err := getBlob(tx, gen, c.blob, baseSlot, &old); {
	case err == errBlobNotFound:
		return nil
	case err != nil:
		return err
	case old.kind != kind:
		return errInvalidBlobType
	}
	return nil
}

// maxSyncCopy is the size in bytes of the largest source of Copy Blob From URL.
const maxSyncCopy = 256 * mib

// copyBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url
func (s *Service) copyBlobFromURL(c *call) error {
	if c.Header("X-Ms-Requires-Sync") != "true" {
		return wire.InvalidHeader("x-ms-requires-sync", c.Header("X-Ms-Requires-Sync"))
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	want, err := c.sourceMD5()
	if err != nil {
		return err
	}
	switch option := c.Header("X-Ms-Copy-Source-Tag-Option"); option {
	case "", "REPLACE":
	case "COPY":
		if b.tags != nil {
			return wire.InvalidHeader("x-ms-copy-source-tag-option", option)
		}
	default:
		return wire.InvalidHeader("x-ms-copy-source-tag-option", option)
	}
	copyTags := c.Header("X-Ms-Copy-Source-Tag-Option") == "COPY"
	id := uuid.NewString()
	changed := s.ticks.next(c.Now)
	var md5 string
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		var from blobRecord
		if err := src.read(tx, c.now(), &from); err != nil {
			return err
		}
		if from.length > maxSyncCopy {
			return errSourceTooLarge
		}
		if from.kind != blockBlob {
			return errInvalidSourceBlobType
		}
		if md5 = from.headers.md5; want != nil && md5 != string(want) {
			return wire.ErrMD5Mismatch
		}
		if copyTags {
			b.tags = from.tags
		}
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err != nil {
		return syncCopyError(err)
	}
	c.sendVersion(changed)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", "success")
	if md5 != "" {
		c.Set("Content-MD5", base64MD5(md5))
	}
	return c.Status(http.StatusAccepted)
}

// errSourceTooLarge: the source is over the limit of a synchronous copy.
var errSourceTooLarge = fail(http.StatusConflict, "CopySourceSizeExceeded", "The source of a synchronous copy is larger than 256 MiB.")

// sourceMD5 reads x-ms-source-content-md5; nil if absent.
func (c *call) sourceMD5() ([]byte, error) {
	if s := c.Header("X-Ms-Source-Content-Md5"); s != "" {
		return parseMD5(s)
	}
	return nil, nil
}

// syncCopyError is what the operations answer that read their source before they answer: a failing source is its own code.
func syncCopyError(err error) error {
	var src errSource
	var e *wire.Error
	switch {
	case errors.As(err, &src) && errors.As(err, &e):
		return fail(e.Status, "CannotVerifyCopySource", errCannotVerifyCopySource.Message)
	}
	return err
}

// abortCopy: https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob
// Copies are complete when they are answered: there is never one to abort.
func (s *Service) abortCopy(c *call) error {
	if c.Header("X-Ms-Copy-Action") != "abort" {
		return wire.InvalidHeader("x-ms-copy-action", c.Header("X-Ms-Copy-Action"))
	}
	if _, err := uuid.Parse(c.Query.Get("copyid")); err != nil {
		return invalidQuery("copyid", c.Query.Get("copyid"))
	}
	return s.updateBlob(c, func(*store.Tx, uint64, *blobRecord) error { return errNoPendingCopy })
}

// fetch makes the source's range durable as new content and checks x-ms-source-content-md5 and -crc64. It serves the
// operations that take a part of a source. The caller closes the upload.
func (s *Service) fetch(c *call, src *copySource, limit int64) (up *upload, err error) {
	want, err := c.sourceMD5()
	if err != nil {
		return nil, err
	}
	var wantCRC []byte
	if text := c.Header("X-Ms-Source-Content-Crc64"); text != "" {
		if wantCRC, err = base64.StdEncoding.DecodeString(text); err != nil || len(wantCRC) != 8 {
			return nil, wire.InvalidHeader("x-ms-source-content-crc64", text)
		}
	}
	rng := byteRange{0, openEnd}
	if text := c.Header("X-Ms-Source-Range"); text != "" {
		var ok bool
		if rng, ok = parseRange(text); !ok {
			return nil, wire.InvalidHeader("x-ms-source-range", text)
		}
	}
	var body blobReader
	var n int64
	err = s.db.View(func(tx *store.Tx) error {
		var b blobRecord
		if err := src.read(tx, c.now(), &b); err != nil {
			return err
		}
		var off int64
		if b.length > 0 || rng.start > 0 {
			var err error
			if off, n, err = rng.within(b.length); err != nil {
				return err
			}
		}
		if n > limit {
			return wire.ErrRequestBodyTooLarge
		}
		return body.open(s, tx, &b, off, n)
	})
	if err != nil {
		return nil, syncCopyError(err)
	}
	defer body.close()
	up = &upload{hasCRC: c.version() >= v20190202 || wantCRC != nil}
	if err := s.store(up, &body, n, true); err != nil {
		return nil, err
	}
	if want != nil && string(want) != string(up.md5) {
		up.close()
		return nil, wire.ErrMD5Mismatch.With("UserSpecifiedMd5", base64.StdEncoding.EncodeToString(want)).
			With("ServerCalculatedMd5", base64.StdEncoding.EncodeToString(up.md5))
	}
	if wantCRC != nil && base64.StdEncoding.EncodeToString(wantCRC) != formatCRC(up.crc) {
		up.close()
		return nil, wire.ErrCRC64Mismatch
	}
	return up, nil
}

// noBody refuses a body where the content comes from elsewhere.
func (c *call) noBody() error {
	if n, err := c.contentLength(0); err != nil || n != 0 {
		return wire.InvalidHeader("Content-Length", c.Header("Content-Length"))
	}
	return nil
}

// putBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/put-block-from-url
func (s *Service) putBlockFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	id, err := c.blockID()
	if err != nil {
		return err
	}
	lease, err := c.leaseID("X-Ms-Lease-Id")
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	up, err := s.fetch(c, &src, c.byVersion(4000*mib, 100*mib, 100*mib))
	if err != nil {
		return err
	}
	defer up.close()
	if up.length == 0 {
		return errInvalidRange
	}
	if err := s.stage(c, lease, id, up); err != nil {
		return err
	}
	c.sendFetched(up)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// sendFetched sends the hash of content that came from a source: the MD5 if the client named it or its version knows no
// CRC64, otherwise the CRC64.
func (c *call) sendFetched(up *upload) {
	if up.hasCRC && !c.HasHeader("X-Ms-Source-Content-Md5") {
		c.Set("x-ms-content-crc64", formatCRC(up.crc))
		return
	}
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.md5))
}

// appendBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/append-block-from-url
func (s *Service) appendBlockFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	conditions, err := c.appendConditions()
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	limit := int64(4 * mib)
	if c.version() >= v20221102 {
		limit = 100 * mib
	}
	up, err := s.fetch(c, &src, limit)
	if err != nil {
		return err
	}
	defer up.close()
	if up.length == 0 {
		return errInvalidRange
	}
	return s.append(c, conditions, up, func() { c.sendFetched(up) })
}

// putPageFromURL: https://learn.microsoft.com/rest/api/storageservices/put-page-from-url
func (s *Service) putPageFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	if action := c.Header("X-Ms-Page-Write"); action != "update" && action != "Update" {
		return wire.InvalidHeader("x-ms-page-write", action)
	}
	start, end, err := c.pageRange()
	if err != nil {
		return err
	}
	seq, err := c.sequenceConditions()
	if err != nil {
		return err
	}
	if c.Header("X-Ms-Source-Range") == "" {
		return wire.MissingHeader("x-ms-source-range")
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	up, err := s.fetch(c, &src, maxPageWrite)
	if err != nil {
		return err
	}
	defer up.close()
	if up.length != end-start {
		return wire.InvalidHeader("x-ms-source-range", c.Header("X-Ms-Source-Range"))
	}
	return s.writePages(c, start, end, seq, up.slices, func() {
		c.sendFetched(up)
		c.sendEncrypted()
	})
}

// putBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url
func (s *Service) putBlobFromURL(c *call) error {
	if kind := c.Header("X-Ms-Blob-Type"); kind != blockBlob.String() {
		return wire.InvalidHeader("x-ms-blob-type", kind)
	}
	if err := c.noBody(); err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	if c.HasHeader("X-Ms-Copy-Source-Tag-Option") {
		return wire.ErrNotImplemented
	}
	inherit := c.Header("X-Ms-Copy-Source-Blob-Properties") != "false"
	up, err := s.fetch(c, &src, 5000*mib)
	if err != nil {
		return err
	}
	defer up.close()
	changed := s.ticks.next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		if inherit {
			var from blobRecord
			if err := src.read(tx, c.now(), &from); err != nil {
				return err
			}
			b.inherit(c, &from)
		}
		if b.headers.md5 == "" {
			b.headers.md5 = string(up.md5)
		}
		b.created, b.changed = changed, changed
		if b.tier != "" {
			b.tierChanged = changed
		}
		b.content, b.length = layOut(tx, up.pieces())
		return s.replace(tx, c, &p, &b)
	})
	if err != nil {
		return syncCopyError(err)
	}
	c.sendVersion(changed)
	c.sendEncrypted()
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.md5))
	return c.Status(http.StatusCreated)
}

// inherit takes over the headers of a source that the request did not set.
func (b *blobRecord) inherit(c *call, from *blobRecord) {
	h := &b.headers
	for _, f := range [...]struct {
		name     string
		own, his *string
	}{
		{"X-Ms-Blob-Content-Type", &h.contentType, &from.headers.contentType},
		{"X-Ms-Blob-Content-Encoding", &h.encoding, &from.headers.encoding},
		{"X-Ms-Blob-Content-Language", &h.language, &from.headers.language},
		{"X-Ms-Blob-Cache-Control", &h.cacheControl, &from.headers.cacheControl},
	} {
		if !c.HasHeader(f.name) {
			*f.own = *f.his
		}
	}
	if !h.dispositionSet {
		h.disposition, h.dispositionSet = from.headers.disposition, from.headers.dispositionSet
	}
}
