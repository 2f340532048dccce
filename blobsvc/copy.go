package blobsvc

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// newCopy is the copy that the request begins.
func newCopy(c *call, src *copySource) (*state.Copy, error) {
	seal, sent, err := c.Flag("X-Ms-Seal-Blob")
	return &state.Copy{ID: uuid.NewString(), URL: src.url, Seal: seal, Unseal: sent && !seal}, err
}

// copyBlob: https://learn.microsoft.com/rest/api/storageservices/copy-blob
// A copy of a blob of this process refers to its source's bytes and is complete when it is answered. Others are
// pending.
func (s *Service) copyBlob(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	if err := c.NoKeys(); err != nil {
		return err
	}
	high, err := highPriority(c)
	if err != nil {
		return err
	}
	if src.remote != nil {
		return s.beginCopy(c, &src)
	}
	b, w, err := s.newBlob(c, state.BlockBlob, false)
	if err != nil {
		return err
	}
	cp, err := newCopy(c, &src)
	if err != nil {
		return err
	}
	cp.RehydrateHigh = high
	src.local.Archived = true
	result, err := s.state.Copies.Copy(&w, &b, &src.local, cp)
	if errors.Is(err, state.ErrOtherEncryption) {
		src.local.Archived = false // its bytes have to be read
		return targetError(c, s.copyBytes(c, &src, &w, &b, cp, maxBlockBlob, endpoint.CopyError))
	}
	if err != nil {
		return endpoint.CopyError(targetError(c, err))
	}
	return answerCopy(c, &result.Result, cp, copySums{})
}

// copyBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url
func (s *Service) copyBlobFromURL(c *call) error {
	if !strings.EqualFold(c.Header("X-Ms-Requires-Sync"), "true") { // the SDK for Python writes True
		return wire.InvalidHeader("x-ms-requires-sync", c.Header("X-Ms-Requires-Sync"))
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, state.BlockBlob, false)
	if err != nil {
		return err
	}
	if err := c.NoKeys(); err != nil {
		return err
	}
	md5, err := sourceMD5(c)
	if err != nil {
		return err
	}
	cp, err := newCopy(c, &src)
	if err != nil {
		return err
	}
	cp.Sync, cp.MD5 = true, string(md5)
	if cp.Tags, err = copyTags(c, &src, &b); err != nil {
		return err
	}
	if src.remote != nil {
		return s.copyBytes(c, &src, &w, &b, cp, state.MaxSyncCopy, func(err error) error { return err })
	}
	result, crc, err := s.copySummed(c, &src, &w, &b, cp)
	if errors.Is(err, state.ErrOtherEncryption) {
		cp.Of = 0
		return s.copyBytes(c, &src, &w, &b, cp, state.MaxSyncCopy, syncCopyError)
	}
	if err != nil {
		return syncCopyError(err)
	}
	return answerCopy(c, &result.Result, cp, chooseSums(c, result.MD5, crc))
}

// x-ms-copy-source-tag-option, and its value with which a copy takes over the source's tags.
const (
	sourceTagOption = "X-Ms-Copy-Source-Tag-Option"
	copyTagOption   = "COPY"
)

// copyTags reports whether a copy that is made before the answer has its source's tags: x-ms-copy-source-tag-option.
// The caller needs the permission to set tags; [Service.copySource] has checked the permission to read the source's.
func copyTags(c *call, src *copySource, b *state.Blob) (bool, error) {
	switch option, err := c.Word(sourceTagOption, "REPLACE", copyTagOption); {
	case option != copyTagOption:
		return false, err
	case b.Tags != nil:
		return false, wire.InvalidHeader("x-ms-copy-source-tag-option", option)
	case src.remote != nil:
		return false, wire.ErrNotImplemented.WithMessage(
			"Taking over the tags of a source outside this service is not implemented.")
	}
	return true, c.HoldsTags()
}

// answerCopy answers a copy that is complete. sums are the checksums of its content.
func answerCopy(c *call, r *state.Result, cp *state.Copy, sums copySums) error {
	if sums.md5 != "" {
		c.Set("Content-MD5", base64.StdEncoding.EncodeToString([]byte(sums.md5)))
	}
	if sums.crc != "" {
		c.Set("x-ms-content-crc64", sums.crc)
	}
	if cp.Sync && c.EffectiveVersion() >= endpoint.V20211202 { // recorded there, and absent up to 2019-12-12
		c.Set("x-ms-request-server-encrypted", "true")
	}
	return answerStarted(c, r, cp, state.CopySuccess)
}

// maxBlockBlob is the size in bytes of the largest block blob.
const maxBlockBlob = state.MaxCommittedBlocks * 4000 * endpoint.MiB

// copyBytes copies a source's bytes, at most limit, into a block blob before it answers: those of a source outside this
// process, or of a blob that is encrypted in another way, whose list of blocks the copy has as well. asError maps
// errors of the source.
func (s *Service) copyBytes(c *call, src *copySource, w *state.Write, b *state.Blob, cp *state.Copy, limit int64,
	asError func(error) error) error {
	if err := s.state.Blobs.CheckPut(w); err != nil {
		return err
	}
	f, err := s.fetch(c, src, w, limit, fetchBlocks)
	if errors.Is(err, wire.ErrRequestBodyTooLarge) {
		return state.ErrSourceTooLarge
	}
	if err != nil {
		return asError(err)
	}
	defer f.up.Close()
	switch {
	case f.from.Kind == state.BlockBlob:
	case cp.Sync:
		return state.ErrSyncSourceType
	default:
		return state.ErrSourceType
	}
	b.Adopt(&f.from)
	if src.remote != nil {
		b.Headers.MD5 = string(f.up.MD5)
	}
	if cp.Tags {
		b.Tags = f.from.Tags
	}
	result, err := s.state.Copies.Put(w, b, f.up, f.blocks, cp)
	if err != nil {
		return err
	}
	if !cp.Sync {
		return answerCopy(c, &result, cp, copySums{})
	}
	return answerCopy(c, &result, cp, chooseSums(c, string(f.up.MD5), endpoint.FormatCRC(f.up.CRC64)))
}

// noSourceToken refuses a token for the source of a pending copy, which would have to be stored for as long as the copy
// takes.
func (src *copySource) noSourceToken() error {
	if src.remote.Token != "" {
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-copy-source-authorization")
	}
	return nil
}

// describe asks a source outside this process for its properties.
func (s *Service) describe(c *call, src *copySource) (of state.Blob, etag string, err error) {
	body, err := s.sources.Get(c.HTTP.Context(), src.remote, state.WholeBlob, "")
	if err != nil {
		return of, "", endpoint.CopyError(err)
	}
	_ = body.Close()
	return body.Blob, body.ETag, nil
}

// beginCopy is Copy Blob with a source outside this process.
func (s *Service) beginCopy(c *call, src *copySource) error {
	if err := src.noSourceToken(); err != nil {
		return err
	}
	b, w, err := s.newBlob(c, state.BlockBlob, false)
	if err != nil {
		return err
	}
	if err := s.state.Blobs.CheckPut(&w); err != nil {
		return targetError(c, err)
	}
	of, etag, err := s.describe(c, src)
	if err != nil {
		return err
	}
	if of.Kind == state.PageBlob && of.Length%state.PageSize != 0 {
		return state.ErrSourceType
	}
	b.Adopt(&of)
	cp, err := newCopy(c, src)
	if err != nil {
		return err
	}
	job := state.CopyJob{URL: src.url, Intent: src.remote.Intent, ETag: etag}
	result, err := s.state.Copies.Begin(&w, &b, cp, of.Length, &job)
	if err != nil {
		return targetError(c, err)
	}
	return s.answerPending(c, &result, &job)
}

// answerPending starts a copy in the background, and answers.
func (s *Service) answerPending(c *call, r *state.Result, job *state.CopyJob) error {
	if !s.state.Membership.Replicated() { // in a cluster, the node that does the background work continues all copies
		s.copies.Start(job)
	}
	return answerStarted(c, r, &state.Copy{ID: job.ID}, state.CopyPending)
}

// answerStarted answers a copy with its status.
func answerStarted(c *call, r *state.Result, cp *state.Copy, status string) error {
	sendResult(c, r)
	c.SendEncryption(r.Encryption)
	c.Set("x-ms-copy-id", cp.ID)
	c.Set("x-ms-copy-status", status)
	return c.Status(http.StatusAccepted)
}

// abortCopy: https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob
func (s *Service) abortCopy(c *call) error {
	if _, err := c.NeedWord("X-Ms-Copy-Action", "abort"); err != nil {
		return err
	}
	id, ok := endpoint.ParseGUID(c.Query.Get("copyid"))
	if !ok {
		return wire.InvalidQuery("copyid", c.Query.Get("copyid"), "copyid needs to be valid Guid.")
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	if err := s.state.Copies.Abort(&w, id); err != nil {
		return err
	}
	s.copies.Stop(id)
	return c.Status(http.StatusNoContent)
}

// incrementalCopy: https://learn.microsoft.com/rest/api/storageservices/incremental-copy-blob
// A snapshot of a page blob becomes a snapshot of the destination. Every copy is answered as pending, as recorded; that
// of a snapshot of this process is complete already.
func (s *Service) incrementalCopy(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	cp, err := newCopy(c, &src)
	if err != nil {
		return err
	}
	if src.remote != nil {
		return s.beginIncremental(c, &src, &w, cp)
	}
	result, err := s.state.Copies.CopyIncremental(&w, &src.local, cp)
	if err != nil {
		return endpoint.CopyError(err)
	}
	return answerStarted(c, &result, cp, state.CopyPending)
}

// beginIncremental is Incremental Copy Blob with a source outside this process.
func (s *Service) beginIncremental(c *call, src *copySource, w *state.Write, cp *state.Copy) error {
	if err := src.noSourceToken(); err != nil {
		return err
	}
	if err := c.NoKeys(); err != nil {
		return err
	}
	source, snapshot, err := remoteSnapshot(src.url)
	if err != nil {
		return err
	}
	if err := s.state.Copies.CheckIncremental(w, source, snapshot); err != nil { // before the source is asked
		return err
	}
	of, etag, err := s.describe(c, src)
	if err != nil {
		return err
	}
	if of.Kind != state.PageBlob || of.Length%state.PageSize != 0 {
		return state.ErrSourceType
	}
	job := state.CopyJob{URL: src.url, Intent: src.remote.Intent, ETag: etag, Snapshot: snapshot}
	result, err := s.state.Copies.BeginIncremental(w, &of, source, cp, &job)
	if err != nil {
		return err
	}
	return s.answerPending(c, &result, &job)
}

// remoteSnapshot splits a source's address into the blob's, by which the destination recognises it whatever signs the
// next request, and the snapshot.
func remoteSnapshot(address string) (source string, snapshot ticks.Ticks, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", 0, wire.InvalidHeader("x-ms-copy-source", address)
	}
	text := u.Query().Get("snapshot")
	if text == "" {
		return "", 0, state.ErrIncrementalNoSnapshot
	}
	snapshot, ok := ticks.ParseISO(text)
	if !ok {
		return "", 0, wire.InvalidHeader("x-ms-copy-source", address)
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath(), snapshot, nil
}
