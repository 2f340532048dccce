package lakesvc

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// needTree refuses access control in a filesystem that is not a tree, whether path and filesystem exist or not: Hadoop
// asks for the list of the root to learn of which kind an account is, and only 400 says that it is flat.
func needTree(c *call) error {
	if c.IsTree() {
		return nil
	}
	return endpoint.ErrNeedsTree
}

// setAccessControl: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func (s *Service) setAccessControl(c *call) error {
	if err := needTree(c); err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	q := state.AccessChange{Owner: c.Header("X-Ms-Owner"), Group: c.Header("X-Ms-Group")}
	acl, permissions := c.Header("X-Ms-Acl"), c.Header("X-Ms-Permissions")
	switch {
	case acl != "" && permissions != "":
		return errBothAccess
	// The change is a function of the list that the item has, since a list without entries of owner, group or others
	// keeps the existing ones: only the transaction knows these.
	case acl != "":
		e, err := posix.ParseEntries(acl, false)
		if err != nil {
			return endpoint.ErrInvalidACL
		}
		q.Set = e.Replace
	case permissions != "":
		mode, err := posix.ParseMode(permissions)
		if err != nil {
			return errPermissions
		}
		q.Set = func(a posix.Access, _ bool) (posix.Access, error) { return a.Chmod(mode), nil }
	case q.Owner == "" && q.Group == "":
		return wire.MissingHeader("x-ms-acl")
	}
	result, err := s.State.Paths.SetAccess(&w, &q)
	if err != nil {
		return err
	}
	c.SendChanged(result.Changed)
	sendNamespace(c, true)
	return c.Status(http.StatusOK)
}

// getAccessControl: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/get-properties
func (s *Service) getAccessControl(c *call) error {
	if err := needTree(c); err != nil {
		return err
	}
	if err := upn(c.Query); err != nil {
		return err
	}
	var b record.Blob
	if err := s.readStatus(c, 0, false, &b); err != nil {
		return err
	}
	c.SendChanged(b.Changed)
	c.SendOwner(&b)
	c.Set("x-ms-acl", b.Node.Access.String())
	return c.Status(http.StatusOK)
}

// checkAccess: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/get-properties
func (s *Service) checkAccess(c *call) error {
	if err := needTree(c); err != nil {
		return err
	}
	action := c.Query.Get("fsaction")
	if action == "" {
		return wire.MissingQuery("fsAction")
	}
	want, err := posix.ParsePerm(action)
	if err != nil {
		return endpoint.InvalidQuery("fsAction", action)
	}
	if c.Identity.Mechanism != auth.SAS && c.Identity.Principal() != nil && want&posix.Write != 0 &&
		c.Identity.Holds(auth.Need{On: auth.OnObject, All: "w"}) != nil {
		c.ByLists = true // the role permits to read, and says nothing of this
	}
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	var b record.Blob
	if err := s.State.Paths.CheckAccess(&r, want, &b); err != nil {
		return err
	}
	c.SendChanged(b.Changed)
	return c.Status(http.StatusOK)
}

// maxAccessRecords is the number of paths that one request changes.
const maxAccessRecords = 2000

// setAccessControlRecursive: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func (s *Service) setAccessControlRecursive(c *call) error {
	if err := needTree(c); err != nil {
		return err
	}
	mode := strings.ToLower(c.Query.Get("mode"))
	acl := c.Header("X-Ms-Acl")
	switch {
	case mode == "":
		return wire.MissingQuery("mode")
	case acl == "":
		return wire.MissingHeader("x-ms-acl")
	}
	e, err := posix.ParseEntries(acl, mode == "remove")
	if err != nil {
		return endpoint.ErrInvalidACL
	}
	var q state.AccessChange
	switch mode {
	case "set":
		q.Set = e.Set
	case "modify":
		q.Set = e.Modify
	case "remove":
		q.Set = func(a posix.Access, _ bool) (posix.Access, error) { return e.Remove(a) }
	default:
		return endpoint.InvalidQuery("mode", mode)
	}
	most := maxAccessRecords
	if text := c.Query.Get("maxrecords"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return endpoint.InvalidQuery("maxRecords", text)
		}
		most = min(n, most)
	}
	force, err := boolQuery(c.Query, "forceflag")
	if err != nil {
		return err
	}
	from, known := endpoint.DecodeMarker(c.Query.Get("continuation"))
	if !known && c.Query.Get("continuation") != "" {
		// behind all paths: the service takes any text, and changes nothing (live tests of the SDK for Go)
		from = []byte{0xff}
	}
	w := c.NewUnconditionalWrite()
	done, err := s.State.Paths.SetAccessRecursive(&w, &q, string(from), most, force)
	if err != nil {
		return err
	}
	type failed struct {
		Error string `json:"errorMessage"`
		Name  string `json:"name"`
		Type  string `json:"type"`
	}
	doc := struct {
		Directories int      `json:"directoriesSuccessful"`
		Failed      []failed `json:"failedEntries"`
		Failures    int      `json:"failureCount"`
		Files       int      `json:"filesSuccessful"`
	}{Directories: done.Directories, Failed: []failed{}, Failures: len(done.Failed), Files: done.Files}
	for _, f := range done.Failed {
		kind := "FILE"
		if f.Directory {
			kind = "DIRECTORY"
		}
		doc.Failed = append(doc.Failed, failed{errAccess.Message, f.Path, kind})
	}
	sendNamespace(c, true)
	if done.Next != "" {
		c.Set("x-ms-continuation", endpoint.EncodeMarker([]byte(done.Next)))
	}
	return writeJSON(c.Request, http.StatusOK, &doc)
}
