package blobsvc

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
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
	h := c.Headers()
	text := h.Get(copySourceHeader)
	if text == "" {
		return src, wire.MissingHeader("x-ms-copy-source")
	}
	invalid := wire.InvalidHeader("x-ms-copy-source", text)
	if len(text) > maxCopySource {
		return src, invalid
	}
	token := h.Get("X-Ms-Copy-Source-Authorization")
	if token != "" && !strings.HasPrefix(token, "Bearer ") {
		return src, wire.InvalidHeader("x-ms-copy-source-authorization", "")
	}
	intent, err := h.Word("X-Ms-File-Request-Intent", "backup")
	if err != nil {
		return src, err
	}
	src.url = text
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return src, invalid
	}
	conditions, err := h.SourceConditions()
	if err != nil {
		return src, err
	}
	var tags *state.TagQuery
	if t := h.Get("X-Ms-Source-If-Tags"); t != "" {
		if tags, err = endpoint.ParseTagCondition("x-ms-if-tags", t); err != nil {
			return src, err
		}
	}
	// A source in this process was resolved, and its caller checked, by the front-end: it is a touch of the operation.
	inside, _ := c.Source(copySourceHeader)
	at := inside.Call
	if at == nil {
		src.remote = &copysource.Source{URL: text, Token: token, Intent: intent, If: state.Conditions(conditions)}
		if inside.Elsewhere {
			src.remote.URL = copysource.InShard(text)
			src.remote.Tags, src.remote.Key = h.Get("X-Ms-Source-If-Tags"), c.SourceKey
			return src, nil
		}
		if tags != nil {
			return src, wire.ErrNotImplemented.WithMessage(
				"Conditions on the tags of a source outside this service are not implemented.")
		}
		if token != "" && u.Scheme != "https" && !s.egress.Private {
			return src, invalid // a token must not be sent in the clear
		}
		return src, nil
	}
	address, err := endpoint.Address(at.Query)
	if err != nil {
		return src, err
	}
	src.local = state.Source{Ref: at.Ref(), If: state.Preconditions{Conditions: state.Conditions(conditions), Tags: tags},
		Key: c.SourceKey}
	src.local.At = address
	return src, nil
}

// source resolves the path that a header of a request names, and authenticates its caller.
func (s *Service) source(c *call, t *frontend.Touch) (src endpoint.Source, err error) {
	switch t.Source {
	case copySourceHeader:
		return s.sourceOfCopy(c, t)
	case endpoint.UndeleteHeader:
		return c.UndeleteSource(t)
	}
	name := c.Header(t.Source)
	if record.CheckContainerName(name) != nil { // the handler says what is wrong with it
		return src, nil
	}
	src.Call, err = c.OfCaller(name, "", t.Need)
	return src, err
}

// sourceOfCopy resolves x-ms-copy-source. A source outside this process, and what is not an address, are left to the
// handler.
func (s *Service) sourceOfCopy(c *call, t *frontend.Touch) (src endpoint.Source, err error) {
	text := c.Header(copySourceHeader)
	u, err := url.Parse(text)
	token := c.Header("X-Ms-Copy-Source-Authorization")
	if err != nil || u.Host == "" || len(text) > maxCopySource || token != "" && !strings.HasPrefix(token, "Bearer ") {
		return src, nil
	}
	at, level, err := s.inside(c, u, token)
	if at == nil {
		return src, nil
	}
	// The shard that has the source checks the caller when it is read: by the URL or the token, as for any account but
	// the caller's own, which is never in another shard.
	if s.hosts != nil && !s.hosts(at.Account) {
		return endpoint.Source{Elsewhere: true}, nil
	}
	if err != nil || level != endpoint.OnBlob {
		return src, wire.InvalidHeader("x-ms-copy-source", text)
	}
	src = endpoint.Source{Call: at, Refused: cannotVerify}
	return src, cannotVerify(s.mayCopy(c, at, t.Need))
}

// cannotVerify is the answer to a caller who may not read the source of a copy.
func cannotVerify(err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		return sourceRefusal(e)
	}
	return err
}

// sourceRefusal returns the error of a copy for the error of its source, whose status and code are in headers too, as
// for a source on another host.
// https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url#response-headers
func sourceRefusal(e *wire.Error) *wire.Error {
	refusal := endpoint.Fail(e.Status, "CannotVerifyCopySource", e.Message).
		WithHeader("x-ms-copy-source-status-code", strconv.Itoa(e.Status))
	if e.Code != "" {
		refusal = refusal.WithHeader("x-ms-copy-source-error-code", e.Code)
	}
	return refusal
}

// inside resolves the request that would read a source, if it is one to this process; at is nil otherwise.
func (s *Service) inside(c *call, u *url.URL, token string) (at *call, level frontend.Level, err error) {
	if !sameHost(u, c) {
		return nil, level, nil
	}
	hr := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, RequestURI: u.RequestURI(), Header: http.Header{}}
	// the credential in the address was sent over the caller's connection, so it is not safer than that
	if u.Scheme == "https" {
		hr.TLS = c.HTTP.TLS
	}
	if token != "" {
		hr.Header["Authorization"] = []string{token}
	}
	at, level, err = s.front.Inner(c.Request, hr)
	// An account that is not served here makes the address one outside, about which the egress policy decides.
	if at == nil || s.accounts.Get(at.Account) == nil {
		return nil, level, nil
	}
	return at, level, err
}

// keyOpensSource are the operations for which the key of the account opens a source in the account. For Copy Blob From
// URL there is no evidence either way.
var keyOpensSource = map[string]bool{"CopyBlob": true, "CopyBlobFromURL": true, "IncrementalCopyBlob": true}

// mayCopy makes sure that the caller may read a source in this process: by the credential in its URL, by the token for
// it, because the container is public, or because it is of the account that the caller has the key of. A caller with a
// token for the account needs a role that lets them read the source, too.
//
// The key opens the source of a copy alone: operations that write content from a URL need access to it like an
// anonymous caller. https://learn.microsoft.com/rest/api/storageservices/copy-blob#authorization
// https://github.com/Azure/azure-sdk-for-go/issues/18426 and https://github.com/Azure/azure-sdk-for-python/issues/36176
func (s *Service) mayCopy(c, at *call, need auth.Need) error {
	if at.Account == c.Account && !at.Query.Has("sig") && !at.HasHeader("Authorization") {
		switch c.Identity.Mechanism {
		case auth.SharedKey:
			if keyOpensSource[c.Operation] {
				at.Identity = c.Identity
				return nil
			}
		case auth.Bearer:
			if id := c.Identity.At(at.Container); id.Check(wire.Blob, need) == nil {
				at.Identity = id
				return nil
			}
		}
	}
	return s.front.Authorize(at.Request, at, need)
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

// openSource opens a range of a source.
func (s *Service) openSource(ctx context.Context, now time.Time, src *copySource, rng state.Range) (
	state.SourceContent, error) {
	if src.remote != nil {
		return s.sources.Get(ctx, src.remote, rng, "")
	}
	return s.state.Copies.OpenSource(&src.local, now, rng)
}

// describe asks a source for its properties.
func (s *Service) describe(ctx context.Context, now time.Time, src *copySource) (state.SourceContent, error) {
	of, err := s.openSource(ctx, now, src, state.WholeBlob)
	if err == nil {
		_ = of.Close()
	}
	return of, err
}
