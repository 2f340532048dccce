package blobsvc

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The dfs endpoint: Data Lake Storage Gen2, a second protocol for the same containers and blobs, which it calls
// filesystems and paths. It has an operations table and handlers of its own (lake_*.go); what requests of both have in
// common, such as conditions, leases, keys and bodies, is parsed by the same methods of call.
// https://learn.microsoft.com/rest/api/storageservices/data-lake-storage-gen2

// LakeHandler serves the dfs endpoint.
func (s *Service) LakeHandler() http.Handler { return s.byHost(true) }

// byHost serves the protocol that the request's host name or, without one, its parameters ask for. The SDKs for dfs
// send some requests to the address of the Blob endpoint, which they get by replacing "dfs" in the host's name: with an
// address that has no such name they go to the same port as the rest.
func (s *Service) byHost(lake bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lake := lake
		switch wire.HostService(r.Host) {
		case wire.DataLake:
			lake = true
		case wire.Blob:
			lake = false
		default:
			if q := r.URL.RawQuery; lake {
				lake = !hasParam(q, "comp") && !hasParam(q, "restype") && len(r.Header["X-Ms-Blob-Type"]) == 0 &&
					len(r.Header["X-Ms-Copy-Source"]) == 0
			} else {
				lake = hasParam(q, "resource") || hasParam(q, "action") || len(r.Header["X-Ms-Rename-Source"]) > 0
			}
		}
		if lake {
			s.lake.ServeHTTP(w, r)
		} else {
			s.handler.ServeHTTP(w, r)
		}
	})
}

// hasParam reports whether a raw query has a parameter.
func hasParam(raw, name string) bool {
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if p, _, _ := strings.Cut(part, "="); strings.EqualFold(p, name) {
			return true
		}
	}
	return false
}

// beforeLake is before for the dfs endpoint. action and resource are what comp and restype are elsewhere.
func (s *Service) beforeLake(r *wire.Request) {
	r.Lake = true
	s.before(r)
	// Java's own client has no PATCH: Hadoop sends and signs PUT with this header.
	if v := r.HTTP.Header["X-Http-Method-Override"]; len(v) == 1 && r.HTTP.Method == http.MethodPut {
		r.Verb = strings.ToUpper(v[0])
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

// resolveLake reads the path: which filesystem, which path in it.
func (s *Service) resolveLake(r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r}
	if r.RawPath == "" {
		return c, onService, nil
	}
	filesystem, path, deeper := strings.Cut(r.RawPath[1:], "/")
	if err := c.setContainer(filesystem); err != nil || !deeper || path == "" && r.Restype == "filesystem" {
		return c, onContainer, err
	}
	return c, onBlob, c.setBlob(path, cleanPath)
}

// cleanPath is the canonical form of a path: without slashes at its ends, and with one between names.
func cleanPath(path string) (string, error) {
	if err := state.CheckBlobName(path); err != nil {
		return "", err
	}
	clean, _, err := state.CleanPath(path)
	return clean, err
}

// hierarchical reports whether the account has a hierarchical namespace.
func (s *Service) hierarchical(account string) bool { return s.accounts.Blob(account).Hierarchical }

// isTree reports whether the container of the request is a tree: those that the system writes are not.
func (s *Service) isTree(c *call) bool {
	return s.hierarchical(c.Account) && !state.IsSystem(c.container)
}

// byLists reports whether access control lists may permit an operation to a caller to whom no role does.
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control-model
func (s *Service) byLists(c *call, id auth.Identity, need auth.Need) bool {
	if !s.hierarchical(c.Account) || id.Principal() == nil || need.Bearer != auth.ByLetters {
		return false
	}
	switch {
	case need.On == auth.OnContainer && need.Any == "l":
	case need.On != auth.OnObject || !ofLists(need):
		return false
	}
	if id.Mechanism == auth.SAS && (id.Unauthorized() == "" || !id.TokenHolds(need)) {
		return false
	}
	c.byLists = true
	return true
}

// ofLists reports whether access control lists decide about what has these letters: others are of features that trees
// do not have.
func ofLists(need auth.Need) bool {
	const letters = "rwcadlmeop"
	return strings.Trim(need.All, letters) == "" && (need.Any != "" || need.All != "") &&
		(need.Any == "" || strings.ContainsAny(need.Any, letters))
}

// holds is identity.Holds, or leaves the decision to access control lists.
func (c *call) holds(need auth.Need) error {
	if c.byLists && ofLists(need) {
		return nil
	}
	return c.identity.Holds(need)
}

// caller is on whose behalf a tree is read or changed: nil, the superuser, for account keys and the signatures made
// with them.
func (c *call) caller() *posix.Caller {
	p := c.identity.Principal()
	if p == nil {
		return nil
	}
	caller := &posix.Caller{ID: p.ObjectID, Groups: p.Groups(), Checked: c.byLists}
	if c.identity.Mechanism != auth.SAS {
		return caller
	}
	if id := c.identity.Authorized(); id != "" {
		return &posix.Caller{ID: id}
	}
	if id := c.identity.Unauthorized(); id != "" {
		return &posix.Caller{ID: id, Checked: true}
	}
	return caller
}

// renderLake answers with an error in the form of the dfs endpoint.
func renderLake(r *wire.Request, e *wire.Error) {
	e = lakeError(e)
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

// lakeErrors are the errors of the Blob service that have another code here.
var lakeErrors = map[string]*wire.Error{
	"ContainerNotFound": fail(http.StatusNotFound, "FilesystemNotFound", "The specified filesystem does not exist."),
	"ContainerAlreadyExists": fail(http.StatusConflict, "FilesystemAlreadyExists",
		"The specified filesystem already exists."),
	"DirectoryIsNotEmpty": fail(http.StatusConflict, "DirectoryNotEmpty",
		"The recursive query parameter value must be true to delete a non-empty directory."),
	"BlobNotFound":      fail(http.StatusNotFound, "PathNotFound", "The specified path does not exist."),
	"BlobAlreadyExists": wire.ErrConditionNotMet,
	"LeaseIdMismatchWithBlobOperation": fail(http.StatusPreconditionFailed, "LeaseIdMismatchWithBlobOperation",
		"The lease ID specified did not match the lease ID for the resource with the specified lease operation."),
	"LeaseIdMissing": fail(http.StatusPreconditionFailed, "LeaseIdMissing",
		"There is currently a lease on the resource and no lease ID was specified in the request."),
	"LeaseLost": fail(http.StatusPreconditionFailed, "LeaseLost",
		"A lease ID was specified, but the lease for the resource has expired."),
	"UnsatisfiableCondition": wire.ErrConditionNotMet,
}

// lakeError is the form of an error on the dfs endpoint.
func lakeError(e *wire.Error) *wire.Error {
	if other := lakeErrors[e.Code]; other != nil {
		c := *other
		c.Headers = slices.Clone(e.Headers)
		return &c
	}
	return e
}

// The failures that only the dfs endpoint has.
var (
	errPathExists = fail(http.StatusConflict, "PathAlreadyExists", "The specified path already exists.")
	errAccess     = wire.ErrAuthorizationPermissionMismatch
	errInvalidACL = fail(http.StatusBadRequest, "InvalidInput", "The access control list value is invalid.")
	errBothAccess = fail(http.StatusBadRequest, "InvalidInput",
		"The request has both permissions and an access control list; only one is allowed.")
	errSourceLength = fail(http.StatusBadRequest, "InvalidSourceUri", "The source URI is invalid.")
	errNeedsTree    = fail(http.StatusBadRequest, "HierarchicalNamespaceNotEnabled",
		"Hierarchical namespace is not enabled for this account.")
)

// createError is the error of an operation that creates a path.
func createError(err error) error {
	if errors.Is(err, state.ErrBlobExists) {
		return errPathExists
	}
	return err
}
