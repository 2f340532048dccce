package lakesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

type op = frontend.Operation[*Service, *call]

const (
	get     = http.MethodGet
	head    = http.MethodHead
	put     = http.MethodPut
	post    = http.MethodPost
	del     = http.MethodDelete
	patch   = http.MethodPatch
	options = http.MethodOptions

	renameHeader = endpoint.RenameHeader
)

// What callers of the dfs endpoint need.
var (
	statusOf  = auth.Need{On: auth.OnObject, Any: "re", Record: true}
	ofOwners  = auth.Need{On: auth.OnObject, Any: "op"}
	moveInto  = auth.Need{On: auth.OnObject, Any: "cwm"}
	appending = auth.Need{On: auth.OnObject, Any: "aw"}
)

// creating are what a creation does to what exists, and with an owner of its own.
var creating = []frontend.Touch{endpoint.OverwritesIt, endpoint.ReplacesList, endpoint.ChangesOwner}

// Operations is the operations table of the dfs endpoint without its handlers, for the compatibility page. Comp is
// the parameter action, and comp where the REST reference has that; Restype is the parameter resource.
func Operations() []frontend.Row { return frontend.Rows(operations) }

// OperationNames returns the names in the operations table.
func OperationNames() []string { return frontend.Names(operations) }

// operations is the operations table of the dfs endpoint.
// https://learn.microsoft.com/rest/api/storageservices/data-lake-storage-gen2
var operations = []op{
	{Name: "FilesystemList", Method: get, On: endpoint.OnService, Restype: "account", Needs: endpoint.OnAccount("l"),
		Do: (*Service).listFilesystems},
	{Name: "PreflightFilesystem", Method: options, On: endpoint.OnService, Needs: endpoint.Everyone,
		Do: (*Service).preflight},

	{Name: "FilesystemCreate", Method: put, On: endpoint.OnContainer, Restype: "filesystem",
		Needs: endpoint.OnContainerByAccount("cw"),
		Do:    (*Service).createFilesystem},
	{Name: "FilesystemSetProperties", Method: patch, On: endpoint.OnContainer, Restype: "filesystem",
		Needs: endpoint.OnContainerByAccount("w"), Do: (*Service).setFilesystemProperties},
	{Name: "FilesystemGetProperties", Method: head, On: endpoint.OnContainer, Restype: "filesystem",
		Needs: endpoint.ReadContainer,
		Do:    (*Service).getFilesystemProperties},
	{Name: "FilesystemDelete", Method: del, On: endpoint.OnContainer, Restype: "filesystem",
		Needs: endpoint.OnContainerByAccount("d"),
		Do:    endpoint.Both[*Service]((*call).DeleteContainer)},
	{Name: "PathList", Method: get, On: endpoint.OnContainer, Restype: "filesystem", Needs: endpoint.ListContainer,
		Do: (*Service).listPaths},

	{Name: "FilesystemListBlobHierarchySegment", Method: get, On: endpoint.OnContainer, Restype: "container", Comp: "list",
		Needs: endpoint.ListContainer, Do: func(s *Service, c *call) error { return s.listBlobs(c) }},

	{Name: "PathCreate", Method: put, On: endpoint.OnBlob, Restype: "file", HasNot: []string{renameHeader},
		Needs: endpoint.OnObject("cw"), Touches: creating,
		Do: (*Service).createFile},
	{Name: "PathCreate", Method: put, On: endpoint.OnBlob, Restype: "directory", HasNot: []string{renameHeader},
		Needs: endpoint.OnObject("cw"), Touches: creating, Do: (*Service).createDirectory},
	{Name: "PathRename", Method: put, On: endpoint.OnBlob, Has: []string{renameHeader}, Needs: moveInto,
		Touches: endpoint.RenameTouches, Do: (*Service).renamePath,
		Note: "In an account without a hierarchical namespace a rename is not atomic: it moves the blobs one by one."},
	{Name: "PathRename", Method: put, On: endpoint.OnBlob, Restype: "file", Has: []string{renameHeader}, Needs: moveInto,
		Touches: endpoint.RenameTouches, Do: (*Service).renamePath},
	{Name: "PathRename", Method: put, On: endpoint.OnBlob, Restype: "directory", Has: []string{renameHeader},
		Needs: moveInto, Touches: endpoint.RenameTouches,
		Do: (*Service).renamePath},
	{Name: "PathAppend", Method: patch, On: endpoint.OnBlob, Comp: "append", Needs: appending, Do: (*Service).appendPath},
	{Name: "PathFlush", Method: patch, On: endpoint.OnBlob, Comp: "flush", Needs: appending, Do: (*Service).flushPath},
	{Name: "PathSetProperties", Method: patch, On: endpoint.OnBlob, Comp: "setproperties", Needs: endpoint.OnObject("w"),
		Do: (*Service).setPathProperties},
	{Name: "PathSetAccessControl", Method: patch, On: endpoint.OnBlob, Comp: "setaccesscontrol", Needs: ofOwners,
		Touches: []frontend.Touch{endpoint.ChangesList, endpoint.ChangesOwner}, Do: (*Service).setAccessControl},
	{Name: "PathSetAccessControlRecursive", Method: patch, On: endpoint.OnBlob, Comp: "setaccesscontrolrecursive",
		Needs: ofOwners, Touches: endpoint.ChangesListsBelow,
		Do: (*Service).setAccessControlRecursive},
	{Name: "PathGetProperties", Method: head, On: endpoint.OnBlob, Needs: statusOf, Do: (*Service).getPathProperties},
	{Name: "PathGetStatus", Method: head, On: endpoint.OnBlob, Comp: "getstatus", Needs: statusOf,
		Do: (*Service).getPathStatus},
	{Name: "PathGetAccessControl", Method: head, On: endpoint.OnBlob, Comp: "getaccesscontrol", Needs: statusOf,
		Do: (*Service).getAccessControl},
	{Name: "PathCheckAccess", Method: head, On: endpoint.OnBlob, Comp: "checkaccess", Needs: statusOf,
		Do: (*Service).checkAccess},
	{Name: "PathRead", Method: get, On: endpoint.OnBlob, Needs: endpoint.ReadBlob, Do: (*Service).readPath},
	{Name: "PathDelete", Method: del, On: endpoint.OnBlob, Needs: endpoint.OnObject("d"),
		Touches: []frontend.Touch{endpoint.DeletesBelow}, Do: (*Service).deletePath},
	{Name: "PathLease", Method: post, On: endpoint.OnBlob, Needs: endpoint.OnObject("wd"), Do: (*Service).leasePath},
	{Name: "PathSetExpiry", Method: put, On: endpoint.OnBlob, Comp: "expiry", Needs: endpoint.OnObject("w"),
		Do: endpoint.Both[*Service]((*call).SetBlobExpiry)},
	{Name: "PathUndelete", Method: put, On: endpoint.OnBlob, Comp: "undelete", Needs: endpoint.OnObject("w"),
		Touches: []frontend.Touch{endpoint.RestoresFrom}, Do: endpoint.Both[*Service]((*call).UndeleteBlob)},
	{Name: "PreflightPath", Method: options, On: endpoint.OnBlob, Needs: endpoint.Everyone, Do: (*Service).preflight},
}

// preflight: https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func (s *Service) preflight(c *call) error { return s.Properties.Preflight(c.Request) }
