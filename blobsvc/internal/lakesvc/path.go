package lakesvc

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
)

// fileHeaders reads the headers with the properties of a file. change sets those that were sent; it is nil if none was.
func fileHeaders(sent wire.Headers) (change func(*record.Headers), err error) {
	// A header that is sent empty removes the value, so that sent and empty are kept apart.
	var sum string
	sumSent := sent.Has("X-Ms-Content-Md5")
	if s := sent.Get("X-Ms-Content-Md5"); s != "" {
		b, err := endpoint.ParseMD5(s)
		if err != nil {
			return nil, err
		}
		sum = string(b)
	}
	own := [...]struct {
		name  string
		field func(*record.Headers) *string
	}{
		{"X-Ms-Content-Type", func(h *record.Headers) *string { return &h.ContentType }},
		{"X-Ms-Content-Encoding", func(h *record.Headers) *string { return &h.Encoding }},
		{"X-Ms-Content-Language", func(h *record.Headers) *string { return &h.Language }},
		{"X-Ms-Cache-Control", func(h *record.Headers) *string { return &h.CacheControl }},
		{"X-Ms-Content-Disposition", func(h *record.Headers) *string { return &h.Disposition }},
	}
	any := sumSent
	for _, f := range own {
		any = any || sent.Has(f.name)
	}
	if !any {
		return nil, nil
	}
	return func(h *record.Headers) {
		for _, f := range own {
			if sent.Has(f.name) {
				*f.field(h) = sent.Get(f.name)
			}
		}
		if sent.Has("X-Ms-Content-Disposition") {
			h.DispositionSet = sent.Get("X-Ms-Content-Disposition") != ""
		}
		if sumSent {
			h.MD5 = sum
		}
	}, nil
}

// newNode reads what a request gives to the path that it creates. Where that is not in a tree the headers are refused.
func newNode(sent wire.Headers, inTree, directory bool) (n *tree.NewNode, err error) {
	n = &tree.NewNode{Directory: directory, Owner: sent.Get("X-Ms-Owner"), Group: sent.Get("X-Ms-Group"),
		Context: sent.Get("X-Ms-Encryption-Context"), Transaction: sent.Get(transactionHeader)}
	if s := sent.Get("X-Ms-Permissions"); s != "" {
		mode, err := posix.ParseMode(s)
		if err != nil {
			return nil, errPermissions
		}
		n.Mode = &mode
	}
	if s := sent.Get("X-Ms-Umask"); s != "" {
		umask, err := posix.ParseUmask(s)
		if err != nil {
			return nil, wire.InvalidHeader("x-ms-umask", s)
		}
		n.Umask = &umask
	}
	if s := sent.Get("X-Ms-Acl"); s != "" {
		// Permissions are entries of the list as well, so that only one of the two can be given.
		if n.Mode != nil {
			return nil, errBothAccess
		}
		e, err := posix.ParseEntries(s, false)
		if err != nil {
			return nil, endpoint.ErrInvalidACL
		}
		n.Entries = &e
	}
	if len(n.Context) > maxEncryptionContext {
		return nil, wire.InvalidHeader("x-ms-encryption-context", n.Context)
	}
	if len(n.Transaction) > maxTransaction {
		return nil, wire.InvalidHeader("x-ms-client-transaction-id", n.Transaction)
	}
	if !inTree &&
		(n.Mode != nil || n.Umask != nil || n.Entries != nil || n.Owner != "" || n.Group != "" || n.Context != "" ||
			n.Transaction != "") {
		return nil, endpoint.ErrNeedsTree
	}
	return n, nil
}

// maxEncryptionContext is the length in bytes of an encryption context, maxTransaction that of the ID of a transaction.
const (
	maxEncryptionContext = 1024
	maxTransaction       = 128
)

// transactionHeader has an ID that creations and renames get. The reference does not have it; Hadoop reads it from the
// status of a path, when it repeats a creation or a rename whose answer was lost.
const transactionHeader = "X-Ms-Client-Transaction-Id"

// createFile: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
func (s *Service) createFile(c *call) error { return s.createPath(c, false) }

// createDirectory: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
func (s *Service) createDirectory(c *call) error { return s.createPath(c, true) }

func (s *Service) createPath(c *call, directory bool) error {
	if c.Blob == "" {
		return s.pathExists(c)
	}
	if token := c.Query.Get("continuation"); token != "" {
		return endpoint.InvalidQuery("continuation", token) // of renames alone
	}
	kind, err := s.newKind(c, directory)
	if err != nil {
		return err
	}
	if err := noContent(c); err != nil {
		return err
	}
	if err := refuse(c.Headers(), ofSource); err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	b := record.Blob{Kind: kind, Headers: record.Headers{ContentType: endpoint.DefaultType}, Lake: !directory}
	if b.Metadata, _, err = readMetadata(c.Headers()); err != nil {
		return err
	}
	headers, err := fileHeaders(c.Headers())
	if err != nil {
		return err
	}
	if headers != nil {
		headers(&b.Headers)
	}
	if w.Node, err = newNode(c.Headers(), c.IsTree(), directory); err != nil {
		return err
	}
	if c.Header("X-Ms-Expiry-Option") != "" && directory {
		return endpoint.ErrDirectoryExpiry
	}
	if b.Expires, err = c.NewExpiry(); err != nil {
		return err
	}
	if err := endpoint.EncryptionScope(c.Headers(), c.Identity, &w.Encryption); err != nil {
		return err
	}
	if w.Lease, err = createLease(c); err != nil {
		return err
	}
	// The directories that a flat account lacks are found before the path is written and made after it: a creation that
	// is refused leaves none behind.
	var missing []string
	if !c.IsTree() {
		if missing, err = s.flat(c).mayCreate(w.Ref, directory); err != nil {
			return err
		}
		if directory {
			b.Metadata = append(b.Metadata, record.Meta{Name: endpoint.FolderMark, Value: "true"})
		}
	}
	result, err := s.State.Blobs.Put(&w, &b, nil)
	if errors.Is(err, state.ErrBlobExists) {
		return s.pathExists(c)
	}
	if err != nil {
		return err
	}
	if err := s.markFolders(c, missing); err != nil {
		return err
	}
	c.SendChanged(result.Changed)
	c.SendEncrypted(result.Encryption) // of every version since April 2021 (recorded)
	return c.Status(http.StatusCreated)
}

// ofSource are the headers that only a rename has.
var ofSource = []string{"X-Ms-Source-If-Match", "X-Ms-Source-If-None-Match", "X-Ms-Source-If-Modified-Since",
	"X-Ms-Source-If-Unmodified-Since", "X-Ms-Source-Lease-Id"}

// newKind reads the parameter blobtype, which the reference does not have: Hadoop sends appendblob for the directories
// of its setting fs.azure.appendblob.directories, and for those below them, which have no type. Flat accounts do not
// have such files.
func (s *Service) newKind(c *call, directory bool) (record.Kind, error) {
	switch text := c.Query.Get("blobtype"); strings.ToLower(text) {
	case "", "blockblob":
		return record.BlockBlob, nil
	case "appendblob":
		switch {
		case !s.Hierarchical(c.Account):
			return 0, endpoint.ErrNeedsTree
		case directory:
			return record.BlockBlob, nil
		}
		return record.AppendBlob, nil
	default:
		return 0, endpoint.InvalidQuery("blobtype", text)
	}
}

// pathExists returns the error of a creation that replaces nothing, with the header by which Hadoop finds that a
// directory to be made exists already.
func (s *Service) pathExists(c *call) error {
	var b record.Blob
	if c.EffectiveVersion() < endpoint.V20191212 {
		return errPathExists
	}
	if err := s.readKind(c, &b); err != nil {
		return errPathExists // it was removed meanwhile
	}
	return errPathExists.WithHeader("x-ms-existing-resource-type", pathKind(&b))
}

// pathKind is the value of x-ms-resource-type.
func pathKind(b *record.Blob) string {
	if b.IsDirectory() || endpoint.HasFolderMark(b.Metadata) {
		return "directory"
	}
	return "file"
}

// createLease reads the lease that a new file gets.
func createLease(c *call) (_ *lease.Request, err error) {
	if c.Header("X-Ms-Proposed-Lease-Id") == "" && !c.HasHeader("X-Ms-Lease-Duration") {
		return nil, nil
	}
	q := &lease.Request{Action: lease.Acquire}
	q.Proposed, q.Duration, err = c.ProposedLease()
	return q, err
}

// source resolves the path that a header of a request names, and authenticates its caller.
func (s *Service) source(c *call, t *frontend.Touch) (endpoint.Source, error) {
	if t.Source == endpoint.UndeleteHeader {
		return c.UndeleteSource(t)
	}
	return s.renameSource(c, t)
}

// renameSource parses x-ms-rename-source, "/filesystem/path?sas", and authenticates the token in it. Without one the
// caller of the request must have the permission, for that path. The path is percent-encoded: a space in it is refused,
// unlike in the source of Copy Blob. https://github.com/Azure/azure-sdk-for-go/issues/24369
func (s *Service) renameSource(c *call, t *frontend.Touch) (src endpoint.Source, err error) {
	path, query, _ := strings.Cut(c.Header(t.Source), "?")
	if path, err = wire.ResolvePath(path); err != nil {
		return src, errSource
	}
	first, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	filesystem, err1 := url.PathUnescape(first)
	name, err2 := url.PathUnescape(rest)
	if !ok || err1 != nil || err2 != nil || !strings.HasPrefix(path, "/") || strings.Contains(path, " ") {
		return src, errSource
	}
	if err := record.CheckContainerName(filesystem); err != nil {
		return src, errSource
	}
	if name, err = endpoint.CleanPath(name); err != nil {
		return src, errSource
	}
	// Without a token of its own the source is opened by the credential of the request.
	if !strings.Contains(query, "sig=") {
		src.Call, err = c.OfCaller(filesystem, name, t.Need)
		return src, err
	}
	// The token was signed for the path of the source, so it is checked with a request for that path.
	u := *c.HTTP.URL
	u.RawQuery = query
	hr := &http.Request{Method: http.MethodPut, Host: c.HTTP.Host, URL: &u, TLS: c.HTTP.TLS, Header: http.Header{}}
	hr.RequestURI = path + "?" + query
	if !c.ByHost {
		hr.RequestURI = "/" + c.Account + hr.RequestURI
	}
	at, _, err := s.front.Inner(c.Request, hr)
	if err != nil {
		return src, errSource
	}
	at.Lake = true // in whose paths a backslash is not a slash
	src.Call = at
	return src, s.front.Authorize(at.Request, at, t.Need)
}

// renamePath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
func (s *Service) renamePath(c *call) error {
	mode := strings.ToLower(c.Query.Get("mode"))
	switch mode {
	case "", "legacy", "posix":
	default:
		return endpoint.InvalidQuery("mode", c.Query.Get("mode"))
	}
	tree := s.Hierarchical(c.Account)
	if token := c.Query.Get("continuation"); token != "" && tree {
		return endpoint.InvalidQuery("continuation", token) // a rename takes one request
	}
	unsupported := []string{"X-Ms-Acl", "X-Ms-Owner", "X-Ms-Group", "X-Ms-Encryption-Context", "X-Ms-Expiry-Option",
		"X-Ms-Expiry-Time", "X-Ms-Proposed-Lease-Id", "X-Ms-Lease-Duration"} // which a rename does not change
	if c.Header("X-Ms-Permissions") == "" {
		unsupported = append(unsupported, "X-Ms-Umask")
	}
	if err := refuse(c.Headers(), unsupported); err != nil {
		return err
	}
	// The front-end has resolved the source and checked its caller: it is a touch of the operation.
	source, _ := c.Source(renameHeader)
	src := state.RenameSource{Ref: source.Ref(), Below: c.Granted(frontend.Spans, renameHeader).Held,
		Alter: c.Granted(frontend.Alters, renameHeader)}
	conditions, err := c.Headers().SourceConditions()
	if err != nil {
		return err
	}
	src.If.Conditions = state.Conditions(conditions)
	if src.If.LeaseID, err = endpoint.LeaseID(c.Headers(), "X-Ms-Source-Lease-Id"); err != nil {
		return err
	}
	// The SDKs send legacy, with which a directory that exists is replaced or in the way. Hadoop sends no mode, and its
	// tests have it that the source is moved below such a directory.
	src.Into = mode != "legacy"
	src.Only = map[string]listing.Kind{"file": listing.Files, "directory": listing.Directories}[c.Restype]
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	if w.Node, err = newNode(c.Headers(), c.IsTree(), false); err != nil {
		return err
	}
	var changes state.RenameChanges
	metadata, _, err := readMetadata(c.Headers())
	if err != nil {
		return err
	}
	if metadata != nil {
		changes.Metadata = &metadata
	}
	if _, err := fileHeaders(c.Headers()); err != nil { // which a rename leaves as they are (recorded)
		return err
	}
	rename := s.State.Paths.Rename
	if !tree {
		rename = func(w *state.Write, src *state.RenameSource, changes *state.RenameChanges) (state.Result, error) {
			return s.renameFlat(c, w, src, changes)
		}
	}
	result, err := rename(&w, &src, &changes)
	if err != nil {
		return createError(endpoint.CopyError(err))
	}
	// Recorded without until then; the SDK for C++ needs them. A directory of a flat account may have none.
	if c.EffectiveVersion() > endpoint.V20200210 && result.Changed != 0 {
		c.SendChanged(result.Changed)
	}
	s.Wake()
	return c.Status(http.StatusCreated)
}

// errHasContent: the operation takes no content.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create#response
var errHasContent = endpoint.Fail(http.StatusBadRequest, "ContentLengthMustBeZero",
	"The Content-Length request header must be zero.")

// noContent fails if the request has content.
func noContent(c *call) error {
	_, err := c.ContentLength(0)
	switch {
	case errors.Is(err, wire.ErrMissingContentLength):
		return nil
	case errors.Is(err, wire.ErrRequestBodyTooLarge):
		return errHasContent
	}
	return err
}

// refuse fails if the request has one of the headers, which the operation does not use.
func refuse(sent wire.Headers, headers []string) error {
	for _, name := range headers {
		if sent.Get(name) != "" {
			return wire.ErrUnsupportedHeader.With("HeaderName", strings.ToLower(name))
		}
	}
	return nil
}

// setPathProperties: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func (s *Service) setPathProperties(c *call) error {
	if c.Blob == "" {
		return wire.ErrInvalidURI
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	headers, err := fileHeaders(c.Headers())
	if err != nil {
		return err
	}
	metadata, sent, err := readMetadata(c.Headers())
	if err != nil {
		return err
	}
	change := &metadata
	if !sent {
		change = nil
	}
	b, err := s.State.Paths.Set(&w, change, headers)
	if err != nil {
		return err
	}
	c.SendChanged(b.Changed)
	sendNamespace(c, b.Node != nil)
	c.SendEncrypted(b.Encryption)
	return c.Status(http.StatusOK)
}

// readStatus reads the record of the path. want is what the caller needs on it, in a tree. With unlock the request must
// have the customer-provided key of the file.
func (s *Service) readStatus(c *call, want posix.Perm, unlock bool, b *record.Blob) error {
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	r.Want = want
	if unlock {
		return s.State.Blobs.Get(&r, b)
	}
	return s.State.Blobs.Status(&r, b)
}

// readKind reads the record of the path, whatever the conditions of the request.
func (s *Service) readKind(c *call, b *record.Blob) error {
	r := state.Read{Ref: state.Ref{Account: c.Account, Container: c.Container, Blob: c.Blob, Caller: c.Caller()},
		Now: c.Now}
	return s.State.Blobs.Status(&r, b)
}

// sendPath sets the headers that the answers about a path share.
func sendPath(c *call, b *record.Blob) {
	c.SendChanged(b.Changed)
	c.Set("Accept-Ranges", "bytes")
	c.Set("x-ms-resource-type", pathKind(b))
	h := &b.Headers
	for _, v := range [...][2]string{{"Content-Type", h.ContentType}, {"Content-Encoding", h.Encoding},
		{"Content-Language", h.Language}, {"Cache-Control", h.CacheControl}} {
		if v[1] != "" {
			c.Set(v[0], v[1])
		}
	}
	if h.DispositionSet || h.Disposition != "" {
		c.Set("Content-Disposition", h.Disposition)
	}
	if n := b.Node; n != nil {
		for _, v := range [...][2]string{{"x-ms-client-transaction-id", n.Transaction},
			{"x-ms-encryption-context", n.Context}} {
			if v[1] != "" {
				c.Set(v[0], v[1])
			}
		}
	}
	c.SendOwner(b)
	c.SendOverrides()
}

// sendFullPath sets the headers that Get Properties and Read share.
func sendFullPath(c *call, b *record.Blob, metadata []record.Meta) {
	sendPath(c, b)
	c.SendLease(b.Lease)
	sendMetadata(c, metadata)
	c.Set("x-ms-server-encrypted", "true")
	c.Set("x-ms-creation-time", b.Created.RFC1123())
	c.SendEncryption(b.Encryption)
	if b.Node == nil {
		return
	}
	if c.EffectiveVersion() >= endpoint.V20230803 {
		c.Set("x-ms-acl", b.Node.Access.String())
	}
}

// upn checks the parameter of that name.
func upn(q wire.Query) error {
	switch s := q.Get("upn"); strings.ToLower(s) {
	case "", "true", "false":
		return nil
	default:
		return endpoint.InvalidQuery("upn", s)
	}
}

// getPathProperties: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/get-properties
func (s *Service) getPathProperties(c *call) error { return s.sendProperties(c, true) }

// getPathStatus: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/get-properties
func (s *Service) getPathStatus(c *call) error { return s.sendProperties(c, false) }

func (s *Service) sendProperties(c *call, all bool) error {
	if err := upn(c.Query); err != nil {
		return err
	}
	var b record.Blob
	want := posix.Perm(0)
	if all {
		if c.Blob == "" {
			return wire.ErrInvalidURI // of the root: Hadoop's tests want 400, and its authors name this error
		}
		want = posix.Read
	}
	if err := s.readStatus(c, want, all, &b); err != nil {
		return err
	}
	if !all {
		sendPath(c, &b)
	} else {
		own, _ := endpoint.WithoutFolderMark(b.Metadata)
		sendFullPath(c, &b, own)
		if b.Expires != 0 {
			c.Set("x-ms-expiry-time", b.Expires.RFC1123())
		}
		if b.Headers.MD5 != "" {
			c.Set("Content-MD5", b.Headers.Base64MD5())
		}
		c.SendAccessTime(&b)
	}
	c.SetInt("Content-Length", b.Length)
	c.Out.WriteHeader(http.StatusOK)
	return nil
}

// deletePath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/delete
func (s *Service) deletePath(c *call) error {
	recursive, err := boolQuery(c.Query, "recursive")
	if err != nil {
		return err
	}
	if _, err := boolQuery(c.Query, "paginated"); err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	if !c.IsTree() {
		return s.deleteFlat(c, &w, recursive)
	}
	if token := c.Query.Get("continuation"); token != "" {
		return endpoint.InvalidQuery("continuation", token) // a deletion takes one request
	}
	deletion, err := s.State.Paths.Delete(&w, recursive)
	if err != nil {
		return err
	}
	s.Wake()
	// Without soft delete recorded from version 2021-02-12 on, and absent up to 2020-02-10.
	if w.Policy.RetentionDays > 0 || c.EffectiveVersion() >= endpoint.V20210212 {
		c.Set("x-ms-delete-type-permanent", strconv.FormatBool(deletion == 0))
	}
	if deletion != 0 {
		c.Set("x-ms-deletion-id", strconv.FormatUint(deletion, 10))
	}
	return c.Status(http.StatusOK)
}

// boolQuery reads a parameter that is true or false.
func boolQuery(q wire.Query, name string) (bool, error) {
	switch s := q.Get(name); strings.ToLower(s) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, endpoint.InvalidQuery(name, s)
	}
}

// leasePath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/lease
func (s *Service) leasePath(c *call) error {
	if period := c.Header("X-Ms-Lease-Break-Period"); period != "" && c.Header("X-Ms-Lease-Duration") == "" &&
		strings.EqualFold(c.Header("X-Ms-Lease-Action"), "acquire") {
		return wire.MissingHeader("x-ms-lease-duration")
	}
	// Unlike on the Blob endpoint, the service draws no ID. The duration is asked for first, as LeaseBlob does.
	if c.Header("X-Ms-Proposed-Lease-Id") == "" && c.Header("X-Ms-Lease-Duration") != "" &&
		strings.EqualFold(c.Header("X-Ms-Lease-Action"), "acquire") {
		return wire.MissingHeader("x-ms-proposed-lease-id")
	}
	return c.LeaseBlob()
}
