package blobsvc

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// newCopy is the copy of a source at a URL that a request begins.
func newCopy(h wire.Headers, source string) (*state.Copy, error) {
	seal, sent, err := h.Flag("X-Ms-Seal-Blob")
	return &state.Copy{ID: uuid.NewString(), URL: source, Seal: seal, Unseal: sent && !seal}, err
}

// copyBlob: https://learn.microsoft.com/rest/api/storageservices/copy-blob
// A copy of a blob of this process refers to its source's bytes and is complete when it is answered. Others are
// pending.
func (s *Service) copyBlob(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	if err := src.readLease(c.Headers(), c.EffectiveVersion()); err != nil {
		return err
	}
	if err := c.NoKeys(); err != nil {
		return err
	}
	high, err := highPriority(c.Headers())
	if err != nil {
		return err
	}
	if err := src.refuseToken(); err != nil {
		return err
	}
	b, w, err := s.newBlob(c, record.BlockBlob, false)
	if err != nil {
		return err
	}
	cp, err := newCopy(c.Headers(), src.url)
	if err != nil {
		return err
	}
	status := record.CopySuccess
	// A source in this process is copied in the transaction. One outside is only described now: its content is copied
	// after the answer, by the job that prepareJob adds.
	if src.remote != nil {
		status, err = record.CopyPending, s.prepareJob(c, &src, &w, &b, cp)
	} else {
		cp.Source, cp.RehydrateHigh, src.local.Archived = &src.local, high, true
	}
	var result state.CopyResult
	if err == nil {
		result, err = s.state.Copies.Put(&w, &b, cp)
	}
	if err != nil {
		return endpoint.CopyError(targetError(c.EffectiveVersion(), err))
	}
	return s.answerCopy(c, &result.Result, cp, status)
}

// copyBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url
func (s *Service) copyBlobFromURL(c *call) error {
	if text := c.Headers().Get(requiresSync); !strings.EqualFold(text, "true") { // the SDK for Python writes True
		return wire.InvalidHeader(requiresSync, text)
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, record.BlockBlob, false)
	if err != nil {
		return err
	}
	if err := c.NoKeys(); err != nil {
		return err
	}
	md5, err := sourceMD5(c.Headers())
	if err != nil {
		return err
	}
	cp, err := newCopy(c.Headers(), src.url)
	if err != nil {
		return err
	}
	cp.Sync, cp.MD5 = true, string(md5)
	if cp.Tags, err = copyTags(c, &src, &b); err != nil {
		return err
	}
	var result state.CopyResult
	var crc string
	if src.remote != nil {
		result, crc, err = s.copyBytes(c, &src, &w, &b, cp)
	} else {
		result, crc, err = s.copyReference(c, &src, &w, &b, cp)
		err = syncCopyError(err)
	}
	if err != nil {
		return err
	}
	byMD5, byCRC := copySums(c.EffectiveVersion(), c.Headers())
	if byMD5 && result.MD5 != "" {
		c.Set("Content-MD5", base64.StdEncoding.EncodeToString([]byte(result.MD5)))
	}
	if byCRC && crc != "" {
		c.Set("x-ms-content-crc64", crc)
	}
	if c.EffectiveVersion() >= endpoint.V20211202 { // recorded there, and absent up to 2019-12-12
		c.Set("x-ms-request-server-encrypted", "true")
	}
	return s.answerCopy(c, &result.Result, cp, record.CopySuccess)
}

// copyTags reports whether a copy that is made before the answer has its source's tags: x-ms-copy-source-tag-option.
// The caller needs the permission to set tags; [Service.copySource] has checked the permission to read the source's.
func copyTags(c *call, src *copySource, b *record.Blob) (bool, error) {
	switch option, err := c.Headers().Word(sourceTagOption, "REPLACE", copyTagOption); {
	case option != copyTagOption:
		return false, err
	case b.Tags != nil:
		return false, wire.InvalidHeader("x-ms-copy-source-tag-option", option)
	case src.remote != nil:
		return false, wire.ErrNotImplemented.WithMessage(
			"Taking over the tags of a source outside this service is not implemented.")
	}
	return true, c.Identity.Holds(endpoint.OfTags)
}

// copyBytes copies the bytes of a source outside this process into a block blob.
func (s *Service) copyBytes(c *call, src *copySource, w *state.Write, b *record.Blob,
	cp *state.Copy) (result state.CopyResult, crc string, err error) {
	if err := s.state.Blobs.CheckPut(w); err != nil {
		return result, "", err
	}
	f, err := s.fetch(c, src, w, state.MaxSyncCopy, fetchCopy)
	if errors.Is(err, wire.ErrRequestBodyTooLarge) {
		return result, "", state.ErrSourceTooLarge
	}
	if err != nil {
		return result, "", err
	}
	defer f.up.Close()
	if f.from.Kind != record.BlockBlob {
		return result, "", state.ErrSyncSourceType
	}
	b.Adopt(&f.from)
	b.Headers.MD5, cp.Upload = string(f.up.MD5), f.up
	result, err = s.state.Copies.Put(w, b, cp)
	return result, endpoint.FormatCRC(f.up.CRC64), err
}

// refuseToken refuses a token for the source of a pending copy, which would have to be stored for as long as the copy
// takes.
func (src *copySource) refuseToken() error {
	if src.remote != nil && src.remote.Token != "" {
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-copy-source-authorization")
	}
	return nil
}

// readLease reads x-ms-source-lease-id of Copy Blob, which versions from 2012-02-12 on refuse: since then a source may
// be of another account. https://learn.microsoft.com/rest/api/storageservices/copy-blob#request-headers
func (src *copySource) readLease(h wire.Headers, v wire.Version) (err error) {
	const header = "X-Ms-Source-Lease-Id"
	if h.Get(header) != "" && (v >= wire.V20120212 || src.remote != nil) {
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-source-lease-id")
	}
	src.local.If.LeaseID, err = endpoint.LeaseID(h, header)
	return err
}

// prepareJob gives a copy of a source outside this process the job that fetches its content, and b the source's
// properties.
func (s *Service) prepareJob(c *call, src *copySource, w *state.Write, b *record.Blob, cp *state.Copy) error {
	// The destination comes first: a copy that will be refused must not make this server send a request.
	if err := s.state.Blobs.CheckPut(w); err != nil {
		return err
	}
	of, err := s.describe(c.HTTP.Context(), c.Now, src)
	if err != nil {
		return err
	}
	if of.Blob.Kind == record.PageBlob && of.Blob.Length%state.PageSize != 0 {
		return state.ErrSourceType
	}
	b.Adopt(&of.Blob)
	cp.Job = &record.CopyJob{URL: src.remote.URL, Intent: src.remote.Intent, ETag: of.ETag}
	return nil
}

// answerCopy answers a copy with its status, and starts its job if it has one.
func (s *Service) answerCopy(c *call, r *state.Result, cp *state.Copy, status string) error {
	// in a cluster, the node that does the background work continues all copies
	if cp.Job != nil && !s.state.Membership.Replicated() {
		s.copies.Start(cp.Job)
	}
	sendResult(c, r)
	c.SendEncryption(r.Encryption)
	c.Set("x-ms-copy-id", cp.ID)
	c.Set("x-ms-copy-status", status)
	return c.Status(http.StatusAccepted)
}

// abortCopy: https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob
func (s *Service) abortCopy(c *call) error {
	if _, err := c.Headers().NeedWord("X-Ms-Copy-Action", "abort"); err != nil {
		return err
	}
	if !c.Query.Has("copyid") {
		return wire.MissingQuery("copyid")
	}
	id, ok := endpoint.ParseGUID(c.Query.Get("copyid"))
	if !ok {
		return wire.InvalidQuery("copyid", c.Query.Get("copyid"), "copyid needs to be valid Guid.")
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	// The record comes first: a job that ended while its copy is still pending could be resumed.
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
	cp, err := newCopy(c.Headers(), src.url)
	if err != nil {
		return err
	}
	var result state.Result
	if src.remote != nil {
		result, err = s.beginIncremental(c, &src, &w, cp)
	} else {
		result, err = s.state.Copies.CopyIncremental(&w, &src.local, cp)
	}
	if errors.Is(err, record.ErrBlobNotFound) || errors.Is(err, record.ErrContainerNotFound) {
		err = syncCopyError(err) // of the source (recorded: StartCopyIncrementalAsync_Error of the SDK for .NET)
	}
	if err != nil {
		return endpoint.CopyError(err)
	}
	return s.answerCopy(c, &result, cp, record.CopyPending)
}

// beginIncremental is Incremental Copy Blob with a source outside this process.
func (s *Service) beginIncremental(c *call, src *copySource, w *state.Write, cp *state.Copy) (r state.Result,
	err error) {
	if err := src.refuseToken(); err != nil {
		return r, err
	}
	if err := c.NoKeys(); err != nil {
		return r, err
	}
	source, snapshot, err := remoteSnapshot(src.url)
	if err != nil {
		return r, err
	}
	if err := s.state.Copies.CheckIncremental(w, source, snapshot); err != nil { // before the source is asked
		return r, err
	}
	of, err := s.describe(c.HTTP.Context(), c.Now, src)
	if err != nil {
		return r, err
	}
	if of.Blob.Kind != record.PageBlob || of.Blob.Length%state.PageSize != 0 {
		return r, state.ErrSourceType
	}
	cp.Job = &record.CopyJob{URL: src.remote.URL, Intent: src.remote.Intent, ETag: of.ETag, Snapshot: snapshot}
	return s.state.Copies.BeginIncremental(w, &of.Blob, source, cp)
}

// remoteSnapshot splits a source's address into the blob's, by which the destination recognises it whatever signs the
// next request, and the snapshot.
func remoteSnapshot(address string) (source string, snapshot ticks.Ticks, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", 0, wire.InvalidHeader("x-ms-copy-source", address)
	}
	if _, blob, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/"); blob == "" {
		return "", 0, errInvalidSource
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

// errInvalidSource: the source of Incremental Copy Blob is not the address of a blob.
var errInvalidSource = endpoint.Fail(http.StatusConflict, "InvalidSourceBlobUrl",
	"The source URL for incremental copy request must be a valid Azure Storage blob URL.")

// targetError returns the error of Copy Blob for its destination: up to 2023-11-03 a condition that does not hold has a
// code of its own, unless it is one on tags. Recordings have it up to 2021-12-02, the tests of the SDK for Go up to
// 2023-11-03; from 2024-08-04 on these want ConditionNotMet.
func targetError(v wire.Version, err error) error {
	var src *state.SourceError
	switch {
	case !errors.Is(err, state.ErrConditionNotMet), errors.As(err, &src):
		return err
	case errors.Is(err, state.ErrTagCondition), v >= endpoint.V20240804:
		return wire.ErrConditionNotMet
	}
	return errTargetConditionNotMet
}

// errTargetConditionNotMet: a conditional header of the destination of Copy Blob does not hold.
var errTargetConditionNotMet = endpoint.Fail(http.StatusPreconditionFailed, "TargetConditionNotMet",
	"The target condition specified using HTTP conditional header(s) is not met.")

// copySums reports which checksums Copy Blob From URL answers with, if they are known: from version 2019-02-02 on the
// CRC64, unless the client named the MD5; both from version 2026-10-06 on in that case.
func copySums(v wire.Version, h wire.Headers) (md5, crc bool) {
	named := h.Has("X-Ms-Source-Content-Md5")
	md5 = named || v < endpoint.V20190202
	return md5, !md5 || named && v >= endpoint.V20261006
}

// copyReference copies a source of this process, to whose bytes the copy refers, and returns the CRC64 of the content
// where the answer has it: the source is read for it alone. A source that changes in the meantime is read again.
func (s *Service) copyReference(c *call, src *copySource, w *state.Write, b *record.Blob,
	cp *state.Copy) (result state.CopyResult, crc string, err error) {
	cp.Source = &src.local
	for range maxSourceChanges {
		if _, byCRC := copySums(c.EffectiveVersion(), c.Headers()); byCRC {
			if crc, cp.Of, err = s.sourceCRC(c.HTTP.Context(), c.Now, src); err != nil {
				return result, "", err
			}
		}
		// Put compares cp.Of with the source in its transaction: after a write in between, the CRC64 is of other content.
		result, err = s.state.Copies.Put(w, b, cp)
		if !errors.Is(err, state.ErrSourceChanged) {
			return result, crc, err
		}
	}
	return result, "", wire.ErrServerBusy
}

// maxSourceChanges is the number of times that Copy Blob From URL reads a source that changes while it is read.
const maxSourceChanges = 5

// sourceCRC returns the CRC64 of a source of this process, and which state of it was read.
func (s *Service) sourceCRC(ctx context.Context, now time.Time, src *copySource) (crc string, of ticks.Ticks,
	err error) {
	body, err := s.openSource(ctx, now, src, state.WholeBlob)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = body.Close() }()
	if body.Blob.Length > state.MaxSyncCopy {
		return "", body.Blob.Changed, nil // which is refused
	}
	sum := crc64nvme.New()
	if _, err := io.Copy(sum, io.LimitReader(body, body.Length)); err != nil {
		return "", 0, err
	}
	return endpoint.FormatCRC(sum.Sum64()), body.Blob.Changed, nil
}
