package lakesvc

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
)

// Config configures the endpoint. All is required.
type Config struct {
	*endpoint.Storage
	// ListBlobs is List Blobs of the Blob endpoint, which clients send to this one as well.
	ListBlobs func(*endpoint.Call) error
	Common    frontend.Common
}

// Service has the handlers of the dfs endpoint.
type Service struct {
	*endpoint.Storage
	front     *frontend.Frontend[*Service, *call]
	listBlobs func(*endpoint.Call) error
}

type call = endpoint.Call

// New returns the handler of the endpoint.
func New(c Config) http.Handler {
	s := &Service{Storage: c.Storage, listBlobs: c.ListBlobs}
	f := endpoint.Config(s, c.Storage)
	f.Operations, f.Resolve, f.Render, f.Translate, f.Common = operations, (*Service).resolve, render, translate,
		c.Common
	f.Touch = func(s *Service, c *call, touches []frontend.Touch) error {
		return c.Touch(touches, func(t *frontend.Touch) (endpoint.Source, error) { return s.source(c, t) })
	}
	s.front = frontend.New(f)
	return s.front
}

// translate reads what is particular to the endpoint: action and resource are what comp and restype are elsewhere.
func translate(r *wire.Request) {
	r.Lake = true
	// Java's own client has no PATCH: Hadoop sends and signs PUT with this header, which the signature does not cover. So
	// it stands for PATCH alone, whose operations an action names that is signed: without the action, which PUT does not
	// have, the header cannot make one request on a path another.
	if v := r.HTTP.Header["X-Http-Method-Override"]; len(v) > 0 && r.HTTP.Method == http.MethodPut {
		if r.Verb = http.MethodPatch; len(v) > 1 || !strings.EqualFold(v[0], http.MethodPatch) ||
			r.Query.Get("action") == "" && r.Query.Get("resource") != "filesystem" {
			r.Verb = "PUT with X-HTTP-Method-Override" // of no operation
		}
	}
	if v := r.Query.Get("resource"); v != "" {
		r.Restype = strings.ToLower(v)
	}
	if v := r.Query.Get("action"); v != "" {
		r.Comp = strings.ToLower(v)
	}
	if r.RawPath != "" && r.Restype == "" && strings.IndexByte(r.RawPath[1:], '/') < 0 {
		r.RawPath += "/" // the root directory, not a blob of the root container
	}
}

// resolve reads the path: which filesystem, which path in it.
func (s *Service) resolve(r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r, Storage: s.Storage}
	if r.RawPath == "" {
		return c, endpoint.OnService, nil
	}
	filesystem, path, deeper := strings.Cut(r.RawPath[1:], "/")
	if err := c.SetContainer(filesystem); err != nil || !deeper || path == "" && r.Restype == "filesystem" {
		return c, endpoint.OnContainer, err
	}
	return c, endpoint.OnBlob, c.SetBlob(path, endpoint.CleanPath)
}

// render answers with an error in the form of the dfs endpoint.
func render(r *wire.Request, e *wire.Error) {
	e = ownError(e)
	r.SetReason(e)
	h := r.Out.Header()
	h["x-ms-error-code"] = []string{e.Code}
	for _, d := range e.Headers {
		h[d.Name] = []string{d.Value}
	}
	if r.HTTP.Method == http.MethodHead || e.Status == http.StatusNotModified || e.Status == http.StatusNoContent {
		_ = r.Status(e.Status)
		return
	}
	var doc struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	doc.Error.Code, doc.Error.Message = e.Code, r.Message(e)
	_ = sendJSON(r, e.Status, &doc)
}

// sendJSON answers with a document.
func sendJSON(r *wire.Request, status int, doc any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return r.Body(status, "application/json;charset=utf-8", []byte(b.String()))
}

// writeJSON answers with a document without naming its type, as the service does for changes of access control.
func writeJSON(r *wire.Request, status int, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	r.SetShared("Content-Type", nil) // keeps net/http from guessing one
	r.SetInt("Content-Length", int64(len(b)+1))
	r.Out.WriteHeader(status)
	_, _ = r.Out.Write(append(b, '\n'))
	return nil
}

// ownErrors are the errors of the Blob service that have another code here.
var ownErrors = map[string]*wire.Error{
	"ContainerNotFound": endpoint.Fail(http.StatusNotFound, "FilesystemNotFound",
		"The specified filesystem does not exist."),
	"ContainerAlreadyExists": endpoint.Fail(http.StatusConflict, "FilesystemAlreadyExists",
		"The specified filesystem already exists."),
	"DirectoryIsNotEmpty": endpoint.Fail(http.StatusConflict, "DirectoryNotEmpty",
		"The recursive query parameter value must be true to delete a non-empty directory."),
	"BlobNotFound":      endpoint.Fail(http.StatusNotFound, "PathNotFound", "The specified path does not exist."),
	"BlobAlreadyExists": wire.ErrConditionNotMet,
	// Recorded of all operations: the *ConditionsFail tests of the SDK for .NET.
	"LeaseIdMismatchWithBlobOperation": endpoint.Fail(http.StatusPreconditionFailed, "LeaseIdMismatch",
		"The lease ID specified did not match the lease ID for the resource."),
	"LeaseNotPresentWithBlobOperation": endpoint.Fail(http.StatusPreconditionFailed, "LeaseNotPresent",
		"There is currently no lease on the resource."),
	"LeaseIdMissing": endpoint.Fail(http.StatusPreconditionFailed, "LeaseIdMissing",
		"There is currently a lease on the resource and no lease ID was specified in the request."),
	"LeaseLost": endpoint.Fail(http.StatusPreconditionFailed, "LeaseLost",
		"A lease ID was specified, but the lease for the resource has expired."),
	"UnsatisfiableCondition": wire.ErrConditionNotMet,
	// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/lease#response
	"LeaseIdMismatchWithLeaseOperation": endpoint.Fail(http.StatusConflict, "LeaseIdMismatchWithLeaseOperation",
		"The lease ID specified did not match the lease ID for the resource with the specified lease operation."),
	"LeaseNotPresentWithLeaseOperation": endpoint.Fail(http.StatusConflict, "LeaseNotPresentWithLeaseOperation",
		"The lease ID is not present with the specified lease operation."),
}

// ownError is the form of an error on the dfs endpoint.
func ownError(e *wire.Error) *wire.Error {
	if other := ownErrors[e.Code]; other != nil {
		c := *other
		c.Headers = slices.Clone(e.Headers)
		return &c
	}
	return e
}

// The failures that only the dfs endpoint has.
var (
	errPathExists = endpoint.Fail(http.StatusConflict, "PathAlreadyExists", "The specified path already exists.")
	errAccess     = wire.ErrAuthorizationPermissionMismatch
	errBothAccess = endpoint.Fail(http.StatusBadRequest, "InvalidInput",
		"The request has both permissions and an access control list; only one is allowed.")
	errSource = endpoint.Fail(http.StatusBadRequest, "InvalidSourceUri", "The source URI is invalid.")
	// Recorded: SetPermissionsAsync_Error of the SDK for .NET.
	errPermissions = endpoint.Fail(http.StatusBadRequest, "InvalidPermission", "The permission value is invalid.")
)

// createError is the error of an operation that creates a path.
func createError(err error) error {
	if errors.Is(err, state.ErrBlobExists) {
		return errPathExists
	}
	return err
}
