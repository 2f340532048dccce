package blobsvc

import (
	"crypto/md5"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// refuseBody refuses a body if the content comes from a URL. A Content-MD5 must be the hash of the empty body.
func refuseBody(c *call) error {
	if n, err := c.ContentLength(0); err != nil || n != 0 {
		return wire.InvalidHeader("Content-Length", c.Header("Content-Length"))
	}
	text := c.Header("Content-Md5")
	if text == "" {
		return nil
	}
	want, err := endpoint.ParseMD5(text)
	if err != nil {
		return err
	}
	if empty := md5.Sum(nil); string(want) != string(empty[:]) {
		return wire.ErrMD5Mismatch
	}
	return nil
}

// putBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/put-block-from-url
func (s *Service) putBlockFromURL(c *call) error {
	if err := mayStageBlocks(c); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	// Everything that can be wrong with the request is checked before the source is read, which may take minutes.
	id, err := blockID(c)
	if err != nil {
		return err
	}
	w, err := s.writeBlock(c)
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	limit := endpoint.ByVersion(c.EffectiveVersion(), 4000*endpoint.MiB, 100*endpoint.MiB, 100*endpoint.MiB)
	f, err := s.fetch(c, &src, &w, limit, fetchWhole)
	if err != nil {
		return syncCopyError(err)
	}
	defer f.up.Close()
	if f.up.Length == 0 {
		return endpoint.ErrInvalidRange
	}
	result, err := s.state.BlockBlobs.StageBlock(&w, id, f.up)
	if err != nil {
		return err
	}
	sendFetched(c, f.up)
	c.SendEncrypted(result.Encryption)
	return c.Status(http.StatusCreated)
}

// sendFetched sends the hash of content that came from a source: the MD5 if the client named it or its version knows no
// CRC64, otherwise the CRC64. From version 2026-10-06 on the CRC64 is there in either case.
func sendFetched(c *call, up *content.Upload) {
	named := c.HasHeader("X-Ms-Source-Content-Md5")
	if up.HasCRC64 && (!named || c.EffectiveVersion() >= endpoint.V20261006) {
		c.Set("x-ms-content-crc64", endpoint.FormatCRC(up.CRC64))
	}
	if named || !up.HasCRC64 {
		c.Set("Content-MD5", endpoint.FormatMD5(up.MD5))
	}
}

// sendAdded sends the hashes of content that came from a source and was added to a blob: the MD5, and from version
// 2026-10-06 on the CRC64.
func sendAdded(c *call, up *content.Upload) {
	c.Set("Content-MD5", endpoint.FormatMD5(up.MD5))
	if c.EffectiveVersion() >= endpoint.V20261006 {
		c.Set("x-ms-content-crc64", endpoint.FormatCRC(up.CRC64))
	}
}

// appendBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/append-block-from-url
func (s *Service) appendBlockFromURL(c *call) error {
	if err := refuseBody(c); err != nil {
		return err
	}
	conditions, err := appendConditions(c)
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	f, err := s.fetch(c, &src, &w, maxAppendBlock(c), fetchExisting)
	if err != nil {
		return syncCopyError(err)
	}
	defer f.up.Close()
	if f.up.Length == 0 {
		return endpoint.ErrInvalidRange
	}
	return s.append(c, &w, conditions, f.up, func() { sendAdded(c, f.up) })
}

// putPageFromURL: https://learn.microsoft.com/rest/api/storageservices/put-page-from-url
func (s *Service) putPageFromURL(c *call) error {
	if err := refuseBody(c); err != nil {
		return err
	}
	if _, err := c.Headers().NeedWord("X-Ms-Page-Write", "update"); err != nil {
		return err
	}
	p, err := readPageWrite(c)
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
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	f, err := s.fetch(c, &src, &w, maxPageWrite, fetchExisting)
	if err != nil {
		return syncCopyError(err)
	}
	defer f.up.Close()
	if f.up.Length != p.end-p.start {
		return wire.InvalidHeader("x-ms-source-range", c.Header("X-Ms-Source-Range"))
	}
	id, err := s.writePages(c, &w, p, f.up)
	if errors.Is(err, state.ErrConditionNotMet) && w.If.IfMatch != "" && !isETag(w.If.IfMatch) {
		return errTargetConditionNotMet // recorded of the text "garbage"; another blob's entity tag has the usual code
	}
	if err != nil {
		return err
	}
	sendAdded(c, f.up)
	c.SendEncrypted(id)
	return c.Status(http.StatusCreated)
}

// isETag reports whether a text has the form of a blob's entity tag, in quotes or not.
func isETag(s string) bool {
	digits, ok := strings.CutPrefix(strings.Trim(s, `"`), "0x")
	_, err := strconv.ParseUint(digits, 16, 64)
	return ok && err == nil
}

// putBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url
func (s *Service) putBlobFromURL(c *call) error {
	if _, err := c.Headers().NeedWord("X-Ms-Blob-Type", record.BlockBlob.String()); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, record.BlockBlob, false)
	if err != nil {
		return err
	}
	copyTags, err := copyTags(c, &src, &b)
	if err != nil {
		return err
	}
	inherit, sent, err := c.Headers().Flag("X-Ms-Copy-Source-Blob-Properties")
	if err != nil {
		return err
	}
	// Without the header the properties of the source are taken over.
	inherit = inherit || !sent
	f, err := s.fetch(c, &src, &w, 5000*endpoint.MiB, fetchWhole)
	if err != nil {
		return putFromURLError(c, err)
	}
	defer f.up.Close()
	if inherit {
		inheritHeaders(c, &b, &f.from)
	}
	if copyTags {
		b.Tags = f.from.Tags
	}
	if err := s.putContent(c, &w, &b, f.up); err != nil {
		return putFromURLTargetError(c, err)
	}
	sendFetched(c, f.up)
	return c.Status(http.StatusCreated)
}

// inheritHeaders gives b the headers of a source that the request did not set.
func inheritHeaders(c *call, b, from *record.Blob) {
	h := &b.Headers
	for _, f := range [...]struct {
		name     string
		own, his *string
	}{
		{"X-Ms-Blob-Content-Type", &h.ContentType, &from.Headers.ContentType},
		{"X-Ms-Blob-Content-Encoding", &h.Encoding, &from.Headers.Encoding},
		{"X-Ms-Blob-Content-Language", &h.Language, &from.Headers.Language},
		{"X-Ms-Blob-Cache-Control", &h.CacheControl, &from.Headers.CacheControl},
	} {
		if !c.HasHeader(f.name) {
			*f.own = *f.his
		}
	}
	if !h.DispositionSet {
		h.Disposition, h.DispositionSet = from.Headers.Disposition, from.Headers.DispositionSet
	}
}

// oneCode reports whether Put Blob From URL has the codes of Copy Blob for conditions that do not hold, as recordings
// of 2021-12-02 have, and none of earlier and later versions: what is known lies between 2021-08-06 and 2023-11-03.
func oneCode(c *call) bool {
	return c.EffectiveVersion() >= endpoint.V20211202 && c.EffectiveVersion() < endpoint.V20231103
}

// putFromURLError is the error of Put Blob From URL for its source, as recorded at 2020-04-08 and 2021-08-06, and as
// the live tests of the SDK for Go have it from 2020-10-02 to 2025-11-05: CannotVerifyCopySource with the status of the
// source's own error, which is 304 where a read would be answered so; only x-ms-source-if-match that does not hold has
// SourceConditionNotMet, from 2020-10-02 on.
func putFromURLError(c *call, err error) error {
	var src *state.SourceError
	if oneCode(c) || errors.As(err, &src) && errors.Is(err, state.ErrConditionNotMet) &&
		c.HasHeader("X-Ms-Source-If-Match") && c.EffectiveVersion() >= endpoint.V20201002 {
		if errors.Is(err, state.ErrConditionNotMet) || errors.Is(err, state.ErrNotModified) {
			return endpoint.CopyError(err)
		}
	}
	return syncCopyError(err)
}

// putFromURLTargetError is the error of Put Blob From URL for its destination.
func putFromURLTargetError(c *call, err error) error {
	if oneCode(c) && errors.Is(err, state.ErrConditionNotMet) && !errors.Is(err, state.ErrTagCondition) {
		return errTargetConditionNotMet
	}
	return err
}
