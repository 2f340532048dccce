package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

const (
	patch        = http.MethodPatch
	renameHeader = "X-Ms-Rename-Source"
)

// What callers of the dfs endpoint need.
var (
	statusOf  = auth.Need{On: auth.OnObject, Any: "re", Record: true}
	ofOwners  = auth.Need{On: auth.OnObject, Any: "op"}
	moveInto  = auth.Need{On: auth.OnObject, Any: "cwm"}
	appending = auth.Need{On: auth.OnObject, Any: "aw"}
)

// LakeOperations is the operations table of the dfs endpoint without its handlers, for the compatibility page. Comp is
// the parameter action, and comp where the REST reference has that; Restype is the parameter resource.
func LakeOperations() []frontend.Row { return frontend.Rows(lakeOperations) }

// lakeOperations is the operations table of the dfs endpoint.
// https://learn.microsoft.com/rest/api/storageservices/data-lake-storage-gen2
var lakeOperations = []op{
	{Name: "FilesystemList", Method: get, On: onService, Restype: "account", Needs: onAccount("l"),
		Do: (*Service).listFilesystems},
	{Name: "PreflightFilesystem", Method: options, On: onService, Needs: everyone, Do: (*Service).preflight},

	{Name: "FilesystemCreate", Method: put, On: onContainer, Restype: "filesystem", Needs: onContainerByAccount("cw"),
		Do: (*Service).createFilesystem},
	{Name: "FilesystemSetProperties", Method: patch, On: onContainer, Restype: "filesystem",
		Needs: onContainerByAccount("w"), Do: (*Service).setFilesystemProperties},
	{Name: "FilesystemGetProperties", Method: head, On: onContainer, Restype: "filesystem", Needs: readContainer,
		Do: (*Service).getFilesystemProperties},
	{Name: "FilesystemDelete", Method: del, On: onContainer, Restype: "filesystem", Needs: onContainerByAccount("d"),
		Do: (*Service).deleteContainer},
	{Name: "PathList", Method: get, On: onContainer, Restype: "filesystem", Needs: listContainer,
		Do: (*Service).listPaths},

	{Name: "FilesystemListBlobHierarchySegment", Method: get, On: onContainer, Restype: "container", Comp: "list",
		Needs: listContainer, Do: (*Service).listBlobs},

	{Name: "PathCreate", Method: put, On: onBlob, Restype: "file", HasNot: []string{renameHeader}, Needs: onObject("cw"),
		Do: (*Service).createFile},
	{Name: "PathCreate", Method: put, On: onBlob, Restype: "directory", HasNot: []string{renameHeader},
		Needs: onObject("cw"), Do: (*Service).createDirectory},
	{Name: "PathRename", Method: put, On: onBlob, Has: []string{renameHeader}, Needs: moveInto, Do: (*Service).renamePath,
		Note: "In an account without a hierarchical namespace a rename is refused."},
	{Name: "PathRename", Method: put, On: onBlob, Restype: "file", Has: []string{renameHeader}, Needs: moveInto,
		Do: (*Service).renamePath},
	{Name: "PathRename", Method: put, On: onBlob, Restype: "directory", Has: []string{renameHeader}, Needs: moveInto,
		Do: (*Service).renamePath},
	{Name: "PathAppend", Method: patch, On: onBlob, Comp: "append", Needs: appending, Do: (*Service).appendPath},
	{Name: "PathFlush", Method: patch, On: onBlob, Comp: "flush", Needs: appending, Do: (*Service).flushPath},
	{Name: "PathSetProperties", Method: patch, On: onBlob, Comp: "setproperties", Needs: onObject("w"),
		Do: (*Service).setPathProperties},
	{Name: "PathSetAccessControl", Method: patch, On: onBlob, Comp: "setaccesscontrol", Needs: ofOwners,
		Do: (*Service).setAccessControl},
	{Name: "PathSetAccessControlRecursive", Method: patch, On: onBlob, Comp: "setaccesscontrolrecursive", Needs: ofOwners,
		Do: (*Service).setAccessControlRecursive},
	{Name: "PathGetProperties", Method: head, On: onBlob, Needs: statusOf, Do: (*Service).getPathProperties},
	{Name: "PathGetStatus", Method: head, On: onBlob, Comp: "getstatus", Needs: statusOf, Do: (*Service).getPathStatus},
	{Name: "PathGetAccessControl", Method: head, On: onBlob, Comp: "getaccesscontrol", Needs: statusOf,
		Do: (*Service).getAccessControl},
	{Name: "PathCheckAccess", Method: head, On: onBlob, Comp: "checkaccess", Needs: statusOf, Do: (*Service).checkAccess},
	{Name: "PathRead", Method: get, On: onBlob, Needs: readBlob, Do: (*Service).readPath},
	{Name: "PathDelete", Method: del, On: onBlob, Needs: onObject("d"), Do: (*Service).deletePath},
	{Name: "PathLease", Method: post, On: onBlob, Needs: onObject("wd"), Do: (*Service).leasePath},
	{Name: "PathSetExpiry", Method: put, On: onBlob, Comp: "expiry", Needs: onObject("w"), Do: (*Service).setBlobExpiry},
	{Name: "PathUndelete", Method: put, On: onBlob, Comp: "undelete", Needs: onObject("w"), Do: (*Service).undeleteBlob},
	{Name: "PreflightPath", Method: options, On: onBlob, Needs: everyone, Do: (*Service).preflight},
}
