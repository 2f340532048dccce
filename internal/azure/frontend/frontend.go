package frontend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/httpserver/pacing"
)

// Config configures the front-end of a service.
type Config[S, C any] struct {
	// Service is the service that is served.
	Service wire.Service
	// State is passed to Resolve and to the handlers.
	State S
	// Operations is the service's operations table.
	Operations []Operation[S, C]
	// Resolve turns a request into the value that handlers work on, and returns the kind of resource that its path names.
	// Its error is the answer after the caller is authenticated.
	Resolve func(S, *wire.Request) (C, Level, error)
	// Render answers with an error in the service's form.
	Render func(*wire.Request, *wire.Error)
	// Admit may refuse a call after Needs was checked, such as anonymous access to a private container. Nil admits what
	// the credential permits, and anonymous callers only to operations that are open to everyone.
	Admit func(S, C, auth.Identity, auth.Need) error
	// Lists, if set, reports whether access control lists decide about a caller whose credential does not permit the
	// operation by itself. Admit and the handlers see to that.
	Lists func(S, C, auth.Identity, auth.Need) bool
	// Touch checks what the operation does beyond Needs, after Admit: [Operation.Touches]. Required if a row has touches.
	Touch func(S, C, []Touch) error
	// Policy returns a stored access policy of the resource that the call names, for a SAS that refers to it. found is
	// false if the resource does not exist or does not have the policy. Nil means that there are no policies.
	Policy func(s S, c C, id string) (p auth.Policy, found bool, err error)
	// Translate, if set, runs when a request is parsed, before anything reads what it asks for. It expresses what the
	// endpoint says in words of its own as the others do.
	Translate func(*wire.Request)
	// Before, if set, runs after the request is parsed and before authentication. It sets CORS headers.
	Before func(S, *wire.Request)
	// Errors, if set, maps an error of the layers below the handlers to the *wire.Error of the answer. It returns other
	// errors unchanged.
	Errors func(error) error
	Common
}

// Common is the part of [Config] that is the same for all services of a process.
type Common struct {
	// Accounts are the accounts that are served. Required.
	Accounts *auth.Accounts
	// OAuth checks bearer tokens and user delegation SAS; nil refuses both.
	OAuth *auth.OAuth
	// RequireHTTPS refuses requests over plain HTTP, like an account that requires secure transfer.
	RequireHTTPS bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// ClientsNow is the clock of clients that date their signatures, if it is not Now; see [auth.Authenticator].
	ClientsNow func() time.Time
	// Log is for defects; nil is slog.Default().
	Log *slog.Logger
	// Observe, if set, is called for every request after its answer was written. It must be quick and must not keep the
	// request.
	Observe func(*wire.Request, Outcome)
	// Options configure how requests are parsed.
	Options wire.Options
	// Limit limits the number of requests that are served at once; nil means no limit.
	Limit *Limit
	// Space knows whether the disk is full; nil: it never is.
	Space Space
	// Board is the place where requests wait for changes. With nil no request waits.
	Board *longpoll.Board
	// Changes records the changes of queues and tables for event subscriptions; nil records none.
	Changes *changes.Recorder
	// Faults are the rules by which requests fail on purpose; nil means no rules.
	Faults *faultrule.Set
	// Forwarder passes requests to other nodes of a cluster; nil passes none on.
	Forwarder Forwarder
	// LastSync makes the service that of a standby, which is read-only at all of its endpoints: it returns the moment of
	// what is served. Nil is a service that takes writes.
	LastSync func() time.Time
	// Progress is the time that a connection may take for the next part of a request or of an answer before it is cut off:
	// 0 is [pacing.DefaultTimeout], negative is no limit.
	Progress time.Duration
}

// Outcome is the result of a request.
type Outcome struct {
	// Identity is the caller's.
	Identity auth.Identity
	// Status is the HTTP status that was sent; 0 if the connection broke before.
	Status int
	// Written is the size of the answer's body in bytes.
	Written int64
	// Duration is from the request's head to the end of its answer, without the wait for a change that the client has
	// asked for, which is Waited.
	Duration, Waited time.Duration
}

// Frontend serves one service. It is an http.Handler, safe for concurrent use.
type Frontend[S, C any] struct {
	Config[S, C]
	index     index[S, C]
	callers   *auth.Authenticator
	challenge string
}

// New returns a front-end. It panics if the operations table is ambiguous or a required field is missing: these are
// defects of the program.
func New[S, C any](c Config[S, C]) *Frontend[S, C] {
	if c.Accounts == nil || c.Resolve == nil || c.Render == nil {
		panic("frontend: Accounts, Resolve and Render are required")
	}
	for i := range c.Operations {
		if len(c.Operations[i].Touches) > 0 && c.Touch == nil {
			panic("frontend: " + c.Operations[i].Name + " has touches, which nothing checks")
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Progress == 0 {
		c.Progress = pacing.DefaultTimeout
	}
	f := &Frontend[S, C]{Config: c, index: newIndex(c.Operations),
		callers: &auth.Authenticator{Accounts: c.Accounts, OAuth: c.OAuth, RequireHTTPS: c.RequireHTTPS,
			ClientsNow: c.ClientsNow}}
	if c.OAuth != nil {
		f.challenge = c.OAuth.Challenge()
	}
	return f
}

// ServeHTTP serves one request; see the package comment for the steps.
func (f *Frontend[S, C]) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	out := NewRecorder(w, f.Progress)
	// A body is read under deadlines, so that a client that stops sending does not hold its place in the limit.
	if conn, ok := w.(pacing.Deadlines); ok && f.Progress > 0 && hr.Body != nil && hr.ContentLength != 0 {
		body := pacing.NewBody(hr.Body, conn, f.Progress)
		hr.Body = body
		defer body.Finish()
	}
	r, err := wire.Parse(f.Service, hr, out, f.Now(), f.Options)
	// Parse returns a request even if it fails, so that the answer with the error can be rendered.
	defer r.Done()
	out.sending = r.Pause
	r.Begin()
	r.Challenge = f.challenge
	var id auth.Identity
	forwarded := false
	// Observe is deferred, so that it is called as well if a panic below breaks the connection.
	if f.Observe != nil {
		start := time.Now()
		defer func() {
			if forwarded && err == nil {
				return // the node that has served it does
			}
			f.Observe(r, Outcome{Identity: id, Status: out.Status, Written: out.Written, Duration: time.Since(start) - r.Waited,
				Waited: r.Waited})
		}()
	}
	if err == nil && f.Translate != nil {
		f.Translate(r)
	}
	if err == nil && lengthMissing(hr) {
		err = wire.ErrLengthRequired
	}
	if err == nil {
		// The place in the limit is taken before the credential is checked, since a check costs work, too.
		if leave, ok := f.Enter(r.Account); !ok {
			err = wire.ErrServerBusy
		} else {
			defer leave()
			if forwarded, err = f.forward(r, out); !forwarded {
				id, err = f.serve(r)
			}
			if err == nil {
				return
			}
		}
	}
	// No client is left to read an answer. net/http closes the connection on this panic and logs nothing.
	if clientGone(hr.Context(), out, err) {
		f.Log.Debug("client closed the connection before the answer", "service", f.Service.String(), "account", r.Account,
			"op", r.Operation, "request_id", r.ID, "err", err)
		panic(http.ErrAbortHandler)
	}
	f.fail(r, out, err)
}

// lengthMissing reports whether a request that was read from a connection has content of unknown length. A request of
// this process, and one of a batch, has no such end.
func lengthMissing(hr *http.Request) bool {
	return (hr.Method == http.MethodPut || hr.Method == http.MethodPost) && hr.ProtoMajor == 1 && hr.ContentLength == 0 &&
		len(hr.Header["Content-Length"]) == 0 && len(hr.TransferEncoding) == 0 &&
		hr.Context().Value(http.ServerContextKey) != nil
}

// lengthPage is the answer to a request without a length.
const lengthPage = "<!DOCTYPE html><html><head><title>Length Required</title></head><body><h2>Length Required</h2>" +
	"<p>HTTP Error 411. The request must be chunked or have a content length.</p></body></html>\r\n"

// clientGone reports whether a request failed because its client has closed the connection.
func clientGone(ctx context.Context, out *Recorder, err error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && (errors.Is(err, context.Canceled) || out.failed)
}

// serve runs the operation. A panic in it is an internal error of this request only.
func (f *Frontend[S, C]) serve(r *wire.Request) (id auth.Identity, err error) {
	defer func() {
		if p := recover(); p != nil {
			// This panic is no defect: it is how a handler breaks the connection, and net/http has to see it.
			if p == http.ErrAbortHandler {
				panic(p)
			}
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if f.Before != nil {
		f.Before(f.State, r)
	}
	// A preflight request has no credential and its path need not exist: neither may be looked at before it is served.
	if r.HTTP.Method == http.MethodOptions {
		return id, f.preflight(r)
	}
	// The server itself has all rights. The mark is a value in memory that no client can send.
	if r.System() {
		id = auth.Identity{Mechanism: auth.SharedKey}
	} else if id, err = f.callers.Authenticate(r); err != nil {
		return id, err
	}
	call, level, err := f.Resolve(f.State, r)
	if err != nil {
		// What is wrong with the path is for callers with a credential; others hear only that they need one.
		if id.Mechanism == auth.Anonymous {
			return id, RefuseAnonymous(r)
		}
		return id, err
	}
	op, err := f.index.find(r, level)
	if err != nil {
		return id, err
	}
	r.Operation = op.Name
	if id, err = f.admit(r, call, id, op.Needs); err != nil {
		return id, err
	}
	// The touches come after Needs: to check one can mean to resolve another path and to authenticate the credential in
	// it, which only a caller who may run the operation should cause.
	if f.Touch != nil {
		if err := f.Touch(f.State, call, op.Touches); err != nil {
			return id, err
		}
	}
	// The answer 501 comes after the permissions, like any other answer of an operation.
	if op.Do == nil {
		return id, wire.ErrNotImplemented
	}
	// The secondary endpoint is read-only. Get Messages is a write: it hides what it returns.
	secondary := r.Secondary || f.LastSync != nil
	if secondary && (r.HTTP.Method != http.MethodGet && r.HTTP.Method != http.MethodHead || op.Name == "GetMessages") {
		return id, wire.ErrWriteToSecondary
	}
	if f.LastSync != nil {
		r.Replication = wire.Replication{Status: "live", LastSync: f.LastSync()}
	}
	// A fault stands in for the operation alone: a request that the checks refuse is refused as it is without rules.
	// What the server writes by itself never fails on purpose.
	if f.Faults != nil && !r.System() {
		fault, err := f.Faults.Find(r)
		if err != nil {
			return id, err
		}
		if fault != nil {
			return id, fault.Serve(r, func() error { return f.do(r, op, call) })
		}
	}
	if f.Space != nil && f.Space.Full() && needsRoom(op.Method, op.Name) {
		return id, wire.ErrInsufficientStorage
	}
	return id, f.do(r, op, call)
}

// preflight serves a CORS preflight request. It has no credential, and is decided by the account's rules only: whatever
// its address names need not exist, nor be an address of an operation.
// https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func (f *Frontend[S, C]) preflight(r *wire.Request) error {
	call, _, _ := f.Resolve(f.State, r)
	for i := range f.Operations {
		if op := &f.Operations[i]; op.Method == http.MethodOptions {
			r.Operation = op.Name
			return op.Do(f.State, call)
		}
	}
	return wire.ErrUnsupportedHTTPVerb
}

// do runs the operation, within the time that the request gives.
func (f *Frontend[S, C]) do(r *wire.Request, op *Operation[S, C], call C) error {
	if text := r.Query.Get("timeout"); text != "" {
		return bounded(r, text, func() error { return op.Do(f.State, call) })
	}
	return op.Do(f.State, call)
}

// admit adds the stored access policy to the identity and checks that it has the permission that the operation needs.
func (f *Frontend[S, C]) admit(r *wire.Request, call C, id auth.Identity, need auth.Need) (auth.Identity, error) {
	if need.Public == auth.Everyone {
		return id, nil
	}
	// The permissions and times of a token may stand in its policy, so that Check can decide only after Apply.
	if policy := id.PolicyID(); policy != "" {
		var p auth.Policy
		var found bool
		var err error
		if f.Policy != nil {
			if p, found, err = f.Policy(f.State, call, policy); err != nil {
				return id, err
			}
		}
		if id, err = id.Apply(p, found, r.Now); err != nil {
			return id, err
		}
	}
	if err := id.Check(f.Service, need); err != nil {
		if id.Mechanism == auth.Anonymous {
			return id, RefuseAnonymous(r)
		}
		// In a tree the access control lists may permit what the credential does not. Admit and the handler look them up.
		if f.Lists == nil || !f.Lists(f.State, call, id, need) {
			return id, auth.Explain(r, need, err)
		}
	}
	if f.Admit != nil {
		return id, f.Admit(f.State, call, id, need)
	}
	if id.Mechanism == auth.Anonymous {
		return id, RefuseAnonymous(r)
	}
	return id, nil
}

// Inner parses the request that a source in a header of outer stands for, and resolves its path. It comes from the same
// address and has the same version. The call is the zero value if the request cannot be parsed.
func (f *Frontend[S, C]) Inner(outer *wire.Request, hr *http.Request) (call C, level Level, err error) {
	hr.RemoteAddr = outer.HTTP.RemoteAddr
	if outer.VersionHeader != "" {
		hr.Header["X-Ms-Version"] = []string{outer.VersionHeader}
	}
	r, err := outer.Inner(hr.WithContext(outer.HTTP.Context()), nil)
	if err != nil {
		return call, level, err
	}
	return f.Resolve(f.State, r)
}

// Authorize authenticates the caller of a request that Inner has resolved, and checks that it has the permission that
// the operation needs, as ServeHTTP does for other requests.
func (f *Frontend[S, C]) Authorize(r *wire.Request, call C, need auth.Need) error {
	id, err := f.callers.Authenticate(r)
	if err == nil {
		_, err = f.admit(r, call, id, need)
	}
	return err
}

// RefuseAnonymous returns the error for a caller without a credential: from version 2019-12-12 a challenge, before that
// "not found" by the endpoints for blobs and queues and "not authenticated" by those for tables and Data Lake.
// Recorded: CreateIfNotExistsAsync_Error of https://github.com/Azure/azure-sdk-for-net/tree/main/sdk/storage
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#bearer-challenge
func RefuseAnonymous(r *wire.Request) error {
	switch {
	case r.Version >= wire.V20191212:
		challenge := r.Challenge
		if challenge == "" {
			challenge = "Bearer authorization_uri=" + r.Base + "/oauth2/authorize resource_id=" + auth.StorageAudience
		}
		return wire.ErrNoAuthenticationInformation.WithHeader("WWW-Authenticate", challenge)
	case r.Endpoint() == wire.Blob, r.Endpoint() == wire.Queue:
		return wire.ErrResourceNotFound
	default:
		return wire.ErrAuthenticationFailed
	}
}

// fail answers with err. It logs an error that is not of the protocol, with the request's id, and answers
// InternalError.
func (f *Frontend[S, C]) fail(r *wire.Request, out *Recorder, err error) {
	var e *wire.Error
	if f.Errors != nil {
		err = f.Errors(err)
	}
	// These two come from limits of the server and not from the protocol: without the mapping they would be logged as
	// defects and answered with 500.
	if f.Space != nil && f.Space.Failed(err) {
		err = wire.ErrInsufficientStorage
	}
	if errors.Is(err, budget.ErrExhausted) {
		err = wire.ErrOperationTimedOut
	}
	if !errors.As(err, &e) {
		f.Log.Error("request failed", "service", f.Service.String(), "account", r.Account, "op", r.Operation,
			"request_id", r.ID, "err", err)
		e = wire.ErrInternal
	}
	r.Failure = e
	// the answer has begun: break the connection, so that the client does not take the answer for complete
	if out.Status != 0 {
		panic(http.ErrAbortHandler)
	}
	// The handler may have set headers of its content before it failed. They do not describe the body of the error.
	h := out.Header()
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Content-Range", "Content-MD5", "ETag",
		"Last-Modified"} {
		delete(h, name)
	}
	if e == wire.ErrLengthRequired {
		h["Connection"] = []string{"close"} // as the service does: what follows may be content
		delete(h, "x-ms-version")
		_ = r.Body(e.Status, "text/html; charset=us-ascii", []byte(lengthPage))
		return
	}
	r.SetReason(e)
	f.Render(r, e)
}
