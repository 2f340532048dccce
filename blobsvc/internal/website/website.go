// Package website serves the static websites of accounts: the blobs of the $web container, read by anyone at a host
// name of the account's website, with index documents for directories and an error document for missing blobs. Azure's
// host name is ACCOUNT.zN.web.core.windows.net; here any name serves whose first label is the account and whose second
// or third is "web", such as ACCOUNT.web.localhost.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-static-website
package website

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/pacing"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// Handler serves the static websites of all accounts.
type Handler struct {
	// State has the blobs, Properties the settings of the websites.
	Blobs      state.Blobs
	Properties *properties.Registry
	// Errors maps the errors of the state to Azure's.
	Errors func(error) error
	frontend.Common
}

// Account is the account of the website with a host name; "" if there is no website.
func (h *Handler) Account(host string) string {
	if h.Options.PathStyle || !strings.Contains(host, ".web") {
		return ""
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	labels := strings.SplitN(strings.ToLower(host), ".", 4)
	if len(labels) < 2 || labels[1] != "web" && (len(labels) < 3 || labels[2] != "web") {
		return ""
	}
	account := strings.TrimSuffix(labels[0], "-secondary")
	if h.Accounts.Get(account) == nil {
		return ""
	}
	return account
}

// Serve answers a request to a website.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, account string) {
	timeout := cmp.Or(h.Progress, pacing.DefaultTimeout)
	out := frontend.NewRecorder(w, timeout)
	if r.ContentLength != 0 && timeout > 0 { // net/http waits for the body, which is not used
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	}
	req, _ := wire.Parse(wire.Blob, r, out, h.Now(), h.Options) // for its IDs; the path is a website's
	req.Account, req.Operation = account, "GetWebContent"
	req.Begin()
	if h.Observe != nil {
		start := time.Now()
		defer func() {
			h.Observe(req, frontend.Outcome{Identity: auth.Identity{}, Status: out.Status, Written: out.Written,
				Duration: time.Since(start)})
		}()
	}
	if err := h.contentWithinLimit(req); err != nil {
		var e *wire.Error
		if !errors.As(h.Errors(err), &e) {
			h.Log.Error("request failed", "service", "blob", "account", account, "op", req.Operation, "request_id", req.ID,
				"err", err)
			e = wire.ErrInternal
		}
		req.Failure = e
		sendError(req, e)
	}
}

// contentWithinLimit is content within the limit of requests that are served at once.
func (h *Handler) contentWithinLimit(r *wire.Request) error {
	leave, ok := h.Enter(r.Account)
	if !ok {
		return wire.ErrServerBusy
	}
	defer leave()
	return h.content(r)
}

// errNotFound: the blob or the website does not exist.
var errNotFound = &wire.Error{Status: http.StatusNotFound, Code: "WebContentNotFound",
	Message: "The requested content does not exist."}

// content responds with a blob, or with the error document.
func (h *Handler) content(r *wire.Request) error {
	site := h.Properties.Of(r.Account).StaticWebsite
	switch method := r.HTTP.Method; {
	case h.RequireHTTPS && r.HTTP.TLS == nil:
		return auth.ErrAccountRequiresHTTPS
	case !site.Enabled:
		return errNotFound
	case method != http.MethodGet && method != http.MethodHead:
		return wire.ErrUnsupportedHTTPVerb.WithHeader("Allow", "GET, HEAD")
	}
	path, err := url.PathUnescape(strings.TrimPrefix(r.HTTP.URL.EscapedPath(), "/"))
	if err != nil {
		return wire.ErrInvalidURI
	}
	for _, name := range candidates(path, site.IndexDocument, site.DefaultIndexDocument) {
		switch err := h.sendBlob(r, name, http.StatusOK); {
		case err == nil:
			return nil
		case !errors.Is(err, errNotFound):
			return err
		}
	}
	if site.ErrorDocument404Path == "" {
		return errNotFound
	}
	return h.sendBlob(r, strings.TrimPrefix(site.ErrorDocument404Path, "/"), http.StatusNotFound)
}

// candidates are the blobs that a path may name, in order: the blob of that name, and the index of the directory. An
// account has one of index and whole: the name of the index in every directory, or the path of the only index.
func candidates(path, index, whole string) (names []string) {
	directory := path == "" || strings.HasSuffix(path, "/")
	if !directory {
		names = append(names, path)
	}
	switch {
	case whole != "" && directory:
		names = append(names, strings.TrimPrefix(whole, "/"))
	case index != "" && directory:
		names = append(names, path+index)
	case index != "":
		names = append(names, path+"/"+index)
	}
	return names
}

// sendBlob responds with a blob of $web and the given status. It returns errNotFound before anything is sent.
func (h *Handler) sendBlob(r *wire.Request, name string, status int) error {
	if record.CheckBlobName(name) != nil || name == "" {
		return errNotFound
	}
	var b record.Blob
	body, err := h.Blobs.Open(
		&state.Read{Ref: state.Ref{Account: r.Account, Container: record.WebContainer, Blob: name}, Now: r.Now}, 0, nil, &b)
	switch {
	case errors.Is(err, record.ErrBlobNotFound), errors.Is(err, record.ErrContainerNotFound),
		errors.Is(err, state.ErrArchived):
		return errNotFound
	case err != nil:
		return err
	}
	defer func() { _ = body.Close() }()
	header := r.Out.Header()
	for _, f := range [...][2]string{{"Content-Type", b.Headers.ContentType}, {"Content-Encoding", b.Headers.Encoding},
		{"Content-Language", b.Headers.Language}, {"Cache-Control", b.Headers.CacheControl},
		{"Content-Disposition", b.Headers.Disposition}} {
		if f[1] != "" {
			header[f[0]] = []string{f[1]}
		}
	}
	header["Etag"] = []string{b.Changed.QuotedHexETag()} // the form that ServeContent looks for
	if status == http.StatusOK {
		if b.Headers.MD5 != "" {
			header["Content-Md5"] = []string{b.Headers.Base64MD5()}
		}
		http.ServeContent(r.Out, r.HTTP, name, b.Changed.Time(), body.Reader)
		return nil
	}
	header["Content-Length"] = []string{strconv.FormatInt(b.Length, 10)}
	r.SetReason(errNotFound)
	r.Out.WriteHeader(status)
	if r.HTTP.Method == http.MethodHead {
		return nil
	}
	if err := body.CopyTo(r.Out); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// sendError responds with an HTML page.
func sendError(r *wire.Request, e *wire.Error) {
	for _, h := range e.Headers {
		r.Set(h.Name, h.Value)
	}
	r.Set("x-ms-error-code", e.Code)
	r.SetReason(e)
	page := fmt.Sprintf("<!DOCTYPE html><html><head><title>%s</title></head><body><h1>%s</h1><ul><li>HttpStatusCode: "+
		"%d</li><li>ErrorCode: %s</li>"+
		"<li>RequestId: %s</li><li>TimeStamp: %s</li></ul></body></html>\n",
		e.Code, html.EscapeString(e.Message), e.Status, e.Code, r.ID, wire.FormatISO7(r.Now))
	_ = r.Body(e.Status, "text/html", []byte(page))
}
