package blobsvc

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

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
