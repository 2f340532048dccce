package blobsvc

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// copySource is the blob that x-ms-copy-source names.
type copySource struct {
	// url is the URL that the client sent; the copy's properties repeat it.
	url string
	// local is a blob of this process. It is not set if remote is not nil.
	local state.Source
	// remote is a source outside this process; nil for a blob of this process.
	remote *copysource.Source
}

// maxCopySource is the longest x-ms-copy-source in bytes.
const maxCopySource = 2 << 10

// copySource reads x-ms-copy-source and x-ms-source-if-*. For a source in this process it makes sure that the caller
// may read it.
func (s *Service) copySource(c *call) (src copySource, err error) {
	text := c.Header("X-Ms-Copy-Source")
	if text == "" {
		return src, wire.MissingHeader("x-ms-copy-source")
	}
	invalid := wire.InvalidHeader("x-ms-copy-source", text)
	if len(text) > maxCopySource {
		return src, invalid
	}
	token := c.Header("X-Ms-Copy-Source-Authorization")
	if token != "" && !strings.HasPrefix(token, "Bearer ") {
		return src, wire.InvalidHeader("x-ms-copy-source-authorization", "")
	}
	intent, err := c.Word("X-Ms-File-Request-Intent", "backup")
	if err != nil {
		return src, err
	}
	src.url = text
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return src, invalid
	}
	conditions, err := c.SourceConditions()
	if err != nil {
		return src, err
	}
	var tags *state.TagQuery
	if t := c.Header("X-Ms-Source-If-Tags"); t != "" {
		if tags, err = endpoint.ParseTagCondition("x-ms-if-tags", t); err != nil {
			return src, err
		}
	}
	r := s.inner(c, u, token)
	if r == nil {
		src.remote = &copysource.Source{URL: text, Token: token, Intent: intent, If: state.Conditions(conditions)}
		if tags != nil {
			return src, wire.ErrNotImplemented.WithMessage(
				"Conditions on the tags of a source outside this service are not implemented.")
		}
		if token != "" && u.Scheme != "https" && !s.egress.Private {
			return src, invalid // a token must not be sent in the clear
		}
		return src, nil
	}
	at, level, err := s.resolve(r)
	if err != nil || level != endpoint.OnBlob {
		return src, invalid
	}
	src.local = state.Source{Ref: at.Ref(), If: state.Preconditions{Conditions: state.Conditions(conditions), Tags: tags},
		Key: c.SourceKey}
	if src.local.At, err = at.Address(); err != nil {
		return src, err
	}
	return src, s.mayCopy(c, at, tags != nil || c.Header(sourceTagOption) == copyTagOption)
}

// inner is the request that would read a source, if it is one to this process; nil otherwise.
func (s *Service) inner(c *call, u *url.URL, token string) *wire.Request {
	if !sameHost(u, c) {
		return nil
	}
	hr := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, RequestURI: u.RequestURI(), Header: http.Header{},
		RemoteAddr: c.HTTP.RemoteAddr}
	// the credential in the address was sent over the caller's connection, so it is not safer than that
	if u.Scheme == "https" {
		hr.TLS = c.HTTP.TLS
	}
	if v := c.VersionHeader; v != "" {
		hr.Header["X-Ms-Version"] = []string{v}
	}
	if token != "" {
		hr.Header["Authorization"] = []string{token}
	}
	r, err := c.Inner(hr.WithContext(c.HTTP.Context()), nil)
	if err != nil || s.accounts.Get(r.Account) == nil {
		return nil
	}
	return r
}

// keyOpensSource are the operations for which the key of the account opens a source in the account. For Copy Blob From
// URL there is no evidence either way.
var keyOpensSource = map[string]bool{"CopyBlob": true, "CopyBlobFromURL": true, "IncrementalCopyBlob": true}

// mayCopy makes sure that the caller may read a source in this process: by the credential in its URL, by the token for
// it, because the container is public, or because it is of the account that the caller has the key of. A caller with a
// token for the account needs a role that lets them read the source, too. tags asks for the permission to read the
// source's tags as well.
//
// The key opens the source of a copy alone: operations that write content from a URL need access to it like an
// anonymous caller. https://learn.microsoft.com/rest/api/storageservices/copy-blob#authorization
// https://github.com/Azure/azure-sdk-for-go/issues/18426 and https://github.com/Azure/azure-sdk-for-python/issues/36176
func (s *Service) mayCopy(c, at *call, tags bool) error {
	if at.Account == c.Account && !at.Query.Has("sig") && !at.HasHeader("Authorization") {
		switch c.Identity.Mechanism {
		case auth.SharedKey:
			if keyOpensSource[c.Operation] {
				return nil
			}
		case auth.Bearer:
			if id := c.Identity.At(at.Container); id.Check(wire.Blob, endpoint.ReadBlob) == nil &&
				(!tags || id.Holds(endpoint.OfTags) == nil) {
				return nil
			}
		}
	}
	err := s.mayRead(at)
	if err == nil && tags {
		err = at.HoldsTags()
	}
	var e *wire.Error
	if errors.As(err, &e) {
		return endpoint.Fail(e.Status, "CannotVerifyCopySource", e.Message)
	}
	return err
}

// mayRead checks the credential in a source's URL, as the front-end does for a request.
func (s *Service) mayRead(at *call) error {
	id, err := s.callers.Authenticate(at.Request)
	if err != nil {
		return err
	}
	if name := id.PolicyID(); name != "" {
		p, found, err := at.StoredPolicy(name)
		if err != nil {
			return err
		}
		if id, err = id.Apply(p, found, at.Now); err != nil {
			return err
		}
	}
	if err := id.Check(wire.Blob, endpoint.ReadBlob); err != nil {
		return err
	}
	return at.AdmitCaller(id, endpoint.ReadBlob)
}

// sameHost reports whether a source's address is this service's: the same host as the request's; any name of this
// machine, whose port the request's host has; or, if the request names its account by the host, the host of another
// account, with the same port and the same name behind the account. The caller makes sure that there is such an
// account.
func sameHost(u *url.URL, c *call) bool {
	host := c.HTTP.Host
	if strings.EqualFold(u.Host, host) {
		return true
	}
	here := url.URL{Scheme: "http", Host: host}
	if c.HTTP.TLS != nil {
		here.Scheme = "https"
	}
	if port(&here) != port(u) {
		return false
	}
	name := strings.ToLower(u.Hostname())
	if strings.HasSuffix(name, ".localhost") || exposure.Local(name) {
		return true
	}
	_, domain, _ := strings.Cut(here.Hostname(), ".")
	_, of, _ := strings.Cut(name, ".")
	return c.ByHost && strings.EqualFold(domain, of)
}

// port returns the port of an address.
func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
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

// syncCopyError returns the error of operations that read their source before they respond: a failing source has one
// code, with the status of its own error.
func syncCopyError(err error) error {
	var src *state.SourceError
	var e *wire.Error
	if errors.As(err, &src) && errors.As(endpoint.AzureError(src.Err), &e) {
		return endpoint.Fail(e.Status, "CannotVerifyCopySource", e.Message)
	}
	return err
}

// targetError returns the error of Copy Blob for its destination: up to 2023-11-03 a condition that does not hold has a
// code of its own, unless it is one on tags. Recordings have it up to 2021-12-02, the tests of the SDK for Go up to
// 2023-11-03; from 2024-08-04 on these want ConditionNotMet.
func targetError(c *call, err error) error {
	var src *state.SourceError
	switch {
	case !errors.Is(err, state.ErrConditionNotMet), errors.As(err, &src):
		return err
	case errors.Is(err, state.ErrTagCondition), c.EffectiveVersion() >= endpoint.V20240804:
		return wire.ErrConditionNotMet
	}
	return errTargetConditionNotMet
}

// errTargetConditionNotMet: a conditional header of the destination of Copy Blob does not hold.
var errTargetConditionNotMet = endpoint.Fail(http.StatusPreconditionFailed, "TargetConditionNotMet",
	"The target condition specified using HTTP conditional header(s) is not met.")

// copySums are the checksums that Copy Blob From URL answers with: the MD5, not encoded, and the CRC64, encoded. "" is
// absent.
type copySums struct{ md5, crc string }

// chooseSums returns the checksums for a copy whose content was read or whose source has an MD5. From version
// 2019-02-02 on it is the CRC64, unless the client named the MD5; both from version 2026-10-06 on in that case.
func chooseSums(c *call, md5, crc string) copySums {
	named := c.HasHeader("X-Ms-Source-Content-Md5")
	switch {
	case c.EffectiveVersion() < endpoint.V20190202:
		return copySums{md5: md5}
	case !named:
		return copySums{crc: crc}
	case c.EffectiveVersion() >= endpoint.V20261006:
		return copySums{md5, crc}
	}
	return copySums{md5: md5}
}

// copySummed copies a source of this process, whose bytes the copy refers to, and returns the CRC64 of the content
// where the answer has it: the source is read for it alone. A source that changes in the meantime is read again.
func (s *Service) copySummed(c *call, src *copySource, w *state.Write, b *state.Blob,
	cp *state.Copy) (result state.CopyResult, crc string, err error) {
	for range maxSourceChanges {
		if chooseSums(c, "md5", "crc").crc != "" {
			if crc, cp.Of, err = s.sourceCRC(c, src); err != nil {
				return result, "", err
			}
		}
		result, err = s.state.Copies.Copy(w, b, &src.local, cp)
		if !errors.Is(err, state.ErrSourceChanged) {
			return result, crc, err
		}
	}
	return result, "", wire.ErrServerBusy
}

// maxSourceChanges is the number of times that Copy Blob From URL reads a source that changes while it is read.
const maxSourceChanges = 5

// sourceCRC returns the CRC64 of a source of this process, and which state of it was read.
func (s *Service) sourceCRC(c *call, src *copySource) (crc string, of ticks.Ticks, err error) {
	var from state.Blob
	body, err := s.state.Copies.OpenSource(&src.local, c.Now, state.WholeBlob, false, &from)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = body.Reader.Close() }()
	if from.Length > state.MaxSyncCopy {
		return "", from.Changed, nil // which is refused
	}
	sum := crc64nvme.New()
	if _, err := io.Copy(sum, io.LimitReader(body.Reader, body.Length)); err != nil {
		return "", 0, err
	}
	return endpoint.FormatCRC(sum.Sum64()), from.Changed, nil
}
