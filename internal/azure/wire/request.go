package wire

import (
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// Request is a storage request, parsed once, with methods to answer it. It belongs to the goroutine that serves the
// request and must not be used afterwards.
type Request struct {
	// HTTP is the request as net/http read it. Handlers read headers and the body from it; nothing rewrites it.
	HTTP *http.Request
	// Out is the place where the answer goes. Prefer the methods in response.go.
	Out http.ResponseWriter

	// Service is the service whose endpoint was called.
	Service Service
	// Lake is set for a request of the dfs endpoint, whose Service is [Blob].
	Lake bool
	// Account is the account's name, without "-secondary".
	Account string
	// Secondary is set for the read-only secondary endpoint, "account-secondary".
	Secondary bool
	// Base is the service's address as the client wrote it, without a trailing slash:
	// "http://127.0.0.1:10000/devstoreaccount1" or "http://devstoreaccount1.blob.localhost:10000".
	Base string
	// ByHost is set if the host named the account.
	ByHost bool
	// RawPath is the path below the account, percent-encoded as sent but for [ResolvePath]; it is "" or begins with "/".
	RawPath string
	// URIPath is the whole path as sent, with the account of a path-style address: what signatures cover.
	URIPath string

	// Query has the decoded parameters; Comp and Restype are those two, lower case.
	Query         Query
	Comp, Restype string

	// Verb is the method by which the operation is found if a header names another than HTTP.Method; "" otherwise.
	Verb string

	// Version is the requested service version: x-ms-version, at most [LatestVersion]; 0 without the header.
	Version Version
	// VersionHeader is x-ms-version as sent. The answer repeats it.
	VersionHeader string

	// ID is the server's id of this request, x-ms-request-id. ClientID is x-ms-client-request-id.
	ID, ClientID string
	// Now is the time at which the request arrived. Every rule that depends on the time uses it.
	Now time.Time

	// HeaderBytes is the length of the names and values of all headers.
	HeaderBytes int

	// Challenge is the WWW-Authenticate header for callers without a credential; "" makes one from Base.
	Challenge string

	// Waited is the time that the request has waited for a change, because its client asked for that.
	Waited time.Duration

	// Operation is the name of the operation that serves the request, "" until it is known.
	Operation string
	// BatchTable is the table of an Entity Group Transaction, whose path does not have it.
	BatchTable string
	// Failure is the error of the answer, nil for success. The front-end sets it.
	Failure *Error
	// Fault is the name of the fault rule that had an effect on the request, "" for none.
	Fault string
	// Replication holds what Get Service Stats reports; the zero value is a secondary that has everything.
	Replication Replication
	// Admit, if set, takes entities of a partition of a table from the rates that limit them, and fails if a rate is
	// exceeded. The Table service calls it.
	Admit func(table, partition string, entities int) error

	options Options
	values  headerValues
	work    *budget.Work

	touched    []Touch
	firstTouch [1]Touch
}

// Work returns the work that the request may cause, and no more than in the time that the request gives. Its operation
// spends it.
func (r *Request) Work() *budget.Work {
	if r.work == nil {
		ctx, limit := r.HTTP.Context(), r.options.Work
		if limit == 0 {
			limit = budget.Request
		}
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(end))
		}
		r.work = budget.New(ctx, limit)
		r.work.Share(budget.Processors, r.Account)
	}
	return r.work
}

// Pause lets other requests compute while this one sends its answer.
func (r *Request) Pause() { r.work.Pause() }

// Done ends the work of the request. The front-end calls it after the answer.
func (r *Request) Done() { r.work.Done() }

// Replication is the state of the secondary endpoint of an account.
type Replication struct {
	// Status is "live", "bootstrap" or "unavailable"; "" is "live".
	Status string
	// LastSync is the time up to which a live secondary has all writes; the zero value is now.
	LastSync time.Time
}

// Options configure how requests are parsed.
type Options struct {
	// StrictVersion refuses versions that are not published.
	StrictVersion bool
	// PathStyle takes the account only from the path, whatever the host's name is.
	PathStyle bool
	// Work is the time of work of a request; 0 is [budget.Request].
	Work time.Duration
}

// Parse parses the parts of hr that all operations need. It fails with [ErrInvalidURI], [ErrInvalidQueryParameterValue]
// or [ErrInvalidHeaderValue]; the Request can still be used to render the error.
func Parse(svc Service, hr *http.Request, out http.ResponseWriter, now time.Time, o Options) (*Request, error) {
	r := &Request{HTTP: hr, Out: out, Service: svc, Now: now, ID: newRequestID(now), options: o}
	if id := header(hr.Header, "X-Ms-Client-Request-Id"); len(id) <= maxClientID && printable(id) {
		r.ClientID = id
	}
	return r, r.parse(o)
}

// Inner parses a request inside r: a part of a batch, or the request for a copy source. It uses the time and the
// options of r: with other options its address could name another account than it does in a request of its own. The
// caller compares the accounts if they have to be the same. The errors are those of [Parse].
func (r *Request) Inner(hr *http.Request, out http.ResponseWriter) (*Request, error) {
	return Parse(r.Service, hr, out, r.Now, r.options)
}

// Limits of a request's headers. They are checked before anything is computed from the headers and before the caller is
// authenticated.
const (
	// MaxHeaderBytes is the length of all names and values: 8 KiB of metadata, a 2 KiB copy source, tags, and the rest.
	MaxHeaderBytes = 64 << 10
	// MaxURI is the length of the path and the query.
	MaxURI = 64 << 10
	// maxStorageHeaders is the number of x-ms-* headers, which are sorted for signatures.
	maxStorageHeaders = 1000
)

// checkHeaders fails with [ErrHeadersTooLarge] for more headers than a request may have.
func (r *Request) checkHeaders() error {
	size, storage := 0, 0
	for name, values := range r.HTTP.Header {
		if strings.HasPrefix(name, "X-Ms-") {
			storage++
		}
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	r.HeaderBytes = size
	if size > MaxHeaderBytes || storage > maxStorageHeaders {
		return ErrHeadersTooLarge
	}
	return nil
}

// maxClientID is the length in characters up to which x-ms-client-request-id is repeated and logged.
const maxClientID = 1024

func (r *Request) parse(o Options) error {
	if err := r.checkHeaders(); err != nil {
		return err
	}
	if v := header(r.HTTP.Header, "X-Ms-Version"); v != "" {
		version, ok := ParseVersion(v)
		if !ok || o.StrictVersion && !version.Known() {
			return InvalidHeader("x-ms-version", v)
		}
		// A version after the newest known one is served as that; the answer repeats the text that was sent.
		r.Version, r.VersionHeader = min(version, LatestVersion()), v
	}
	path, rawQuery, err := target(r.HTTP)
	if err != nil {
		return err
	}
	// Signatures cover the path as it was sent. RawPath, which is what the services read, is resolved below.
	r.URIPath = path
	if err := r.locate(path, o.PathStyle); err != nil {
		return err
	}
	if r.Service != Table { // whose paths have keys in quotes
		if r.RawPath, err = ResolvePath(r.RawPath); err != nil {
			return err
		}
		if r.RawPath == "/" {
			r.RawPath = ""
		}
	}
	var ok bool
	if r.Query, ok = ParseQuery(rawQuery); !ok {
		return ErrInvalidQueryParameterValue.WithMessage("The query string of the request URI cannot be parsed.")
	}
	r.Comp = strings.ToLower(r.Query.Get("comp"))
	r.Restype = strings.ToLower(r.Query.Get("restype"))
	return nil
}

// Headers returns the headers of the request.
func (r *Request) Headers() Headers { return Headers(r.HTTP.Header) }

// Header returns the first value of the named request header. name must be in Go's canonical form.
func (r *Request) Header(name string) string { return header(r.HTTP.Header, name) }

// HasHeader reports whether the request has the named header, which may be empty. name must be in Go's canonical form.
func (r *Request) HasHeader(name string) bool { return len(r.HTTP.Header[name]) > 0 }

// header is http.Header.Get without the canonicalisation.
func header(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// Endpoint is the endpoint that the request is one of: [DataLake], or the service.
func (r *Request) Endpoint() Service {
	if r.Lake {
		return DataLake
	}
	return r.Service
}
