package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

type op = frontend.Operation[*Service, *call]

const (
	get     = http.MethodGet
	head    = http.MethodHead
	put     = http.MethodPut
	post    = http.MethodPost
	del     = http.MethodDelete
	options = http.MethodOptions

	copySourceHeader = "X-Ms-Copy-Source"
	requiresSync     = "X-Ms-Requires-Sync"
	blobTypeHeader   = "X-Ms-Blob-Type"
)

// Operations is the operations table without its handlers, for the compatibility page.
func Operations() []frontend.Row { return frontend.Rows(operations) }

// operations is the operations table of the Blob service: a row per operation of the REST reference, and method.
// https://learn.microsoft.com/rest/api/storageservices/operations-on-the-blob-service
var operations = []op{
	// The account.
	{Name: "ListContainers", Method: get, On: onService, Comp: "list", Needs: onAccount("l"),
		Do: (*Service).listContainers},
	{Name: "GetBlobServiceProperties", Method: get, On: onService, Comp: "properties", Restype: "service",
		Needs: ofManagers("r"), Do: (*Service).getServiceProperties},
	{Name: "SetBlobServiceProperties", Method: put, On: onService, Comp: "properties", Restype: "service",
		Needs: ofManagers("w"), Do: (*Service).setServiceProperties},
	{Name: "GetBlobServiceStats", Method: get, On: onService, Comp: "stats", Restype: "service", Needs: ofManagers("r"),
		Do: (*Service).getServiceStats},
	{Name: "GetAccountInformation", Method: get, On: onService, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onAccount), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: onService, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onAccount), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: get, On: onContainer, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onThisContainer), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: onContainer, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onThisContainer), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: get, On: onBlob, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onRecord), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: onBlob, Comp: "properties", Restype: "account",
		Needs: aboutAccount(onRecord), Do: (*Service).getAccountInformation},
	{Name: "GetUserDelegationKey", Method: post, On: onService, Comp: "userdelegationkey", Restype: "service",
		Needs: delegation, Do: (*Service).getUserDelegationKey},
	{Name: "BlobBatch", Method: post, On: onService, Comp: "batch", Needs: accountParts, Do: (*Service).blobBatch},
	// The JavaScript client sends this for the account of a path-style address.
	{Name: "BlobBatch", Method: post, On: onService, Comp: "batch", Restype: "container", Needs: accountParts,
		Do: (*Service).blobBatch},
	{Name: "FindBlobsByTags", Method: get, On: onService, Comp: "blobs", Needs: onAccount("f"),
		Do: (*Service).findBlobsByTags},
	{Name: "PreflightBlobRequest", Method: options, On: onService, Needs: everyone, Do: (*Service).preflight},

	// Containers.
	{Name: "CreateContainer", Method: put, On: onContainer, Restype: "container", Needs: onContainerByAccount("cw"),
		Do: (*Service).createContainer},
	{Name: "GetContainerProperties", Method: get, On: onContainer, Restype: "container", Needs: readContainer,
		Do: (*Service).getContainerProperties},
	{Name: "GetContainerProperties", Method: head, On: onContainer, Restype: "container", Needs: readContainer,
		Do: (*Service).getContainerProperties},
	{Name: "GetContainerMetadata", Method: get, On: onContainer, Comp: "metadata", Restype: "container",
		Needs: readContainer, Do: (*Service).getContainerMetadata},
	{Name: "GetContainerMetadata", Method: head, On: onContainer, Comp: "metadata", Restype: "container",
		Needs: readContainer, Do: (*Service).getContainerMetadata},
	{Name: "SetContainerMetadata", Method: put, On: onContainer, Comp: "metadata", Restype: "container",
		Needs: onContainerByAccount("w"), Do: (*Service).setContainerMetadata},
	{Name: "GetContainerACL", Method: get, On: onContainer, Comp: "acl", Restype: "container", Needs: ofAccess,
		Do: (*Service).getContainerACL},
	{Name: "GetContainerACL", Method: head, On: onContainer, Comp: "acl", Restype: "container", Needs: ofAccess,
		Do: (*Service).getContainerACL},
	{Name: "SetContainerACL", Method: put, On: onContainer, Comp: "acl", Restype: "container", Needs: ofAccess,
		Do: (*Service).setContainerACL},
	{Name: "DeleteContainer", Method: del, On: onContainer, Restype: "container", Needs: onContainerByAccount("d"),
		Do: (*Service).deleteContainer},
	{Name: "RestoreContainer", Method: put, On: onContainer, Comp: "undelete", Restype: "container",
		Needs: onContainerByAccount("w"), Do: (*Service).restoreContainer},
	{Name: "RenameContainer", Method: put, On: onContainer, Comp: "rename", Restype: "container",
		Needs: onContainerByAccount("w"), Do: (*Service).renameContainer,
		Note: "In accounts with a hierarchical namespace."},
	{Name: "LeaseContainer", Method: put, On: onContainer, Comp: "lease", Restype: "container",
		Needs: onContainerByAccount("wd"), Do: (*Service).leaseContainer},
	{Name: "ListBlobs", Method: get, On: onContainer, Comp: "list", Restype: "container", Needs: listContainer,
		Do: (*Service).listBlobs},
	{Name: "FindBlobsByTagsInContainer", Method: get, On: onContainer, Comp: "blobs", Restype: "container",
		Needs: onThisContainer("f"), Do: (*Service).findBlobsByTags},
	{Name: "BlobBatch", Method: post, On: onContainer, Comp: "batch", Restype: "container", Needs: containerParts,
		Do: (*Service).blobBatch},
	{Name: "PreflightBlobRequest", Method: options, On: onContainer, Restype: "container", Needs: everyone,
		Do: (*Service).preflight},

	// Blobs of all types.
	{Name: "PutBlob", Method: put, On: onBlob, HasNot: []string{copySourceHeader}, Needs: onObject("cw"),
		Do: (*Service).putBlob},
	{Name: "PutBlobFromURL", Method: put, On: onBlob, Has: []string{copySourceHeader, blobTypeHeader},
		Needs: onObject("cw"), Do: (*Service).putBlobFromURL,
		State: frontend.Partial, Note: "Tags of a source in another service cannot be taken over."},
	{Name: "GetBlob", Method: get, On: onBlob, Needs: readBlob, Do: (*Service).getBlob},
	{Name: "GetBlobProperties", Method: head, On: onBlob, Needs: readBlob, Do: (*Service).getBlobProperties},
	{Name: "SetBlobProperties", Method: put, On: onBlob, Comp: "properties", Needs: onObject("w"),
		Do: (*Service).setBlobProperties},
	{Name: "GetBlobMetadata", Method: get, On: onBlob, Comp: "metadata", Needs: readBlob, Do: (*Service).getBlobMetadata},
	{Name: "GetBlobMetadata", Method: head, On: onBlob, Comp: "metadata", Needs: readBlob, Do: (*Service).getBlobMetadata},
	{Name: "SetBlobMetadata", Method: put, On: onBlob, Comp: "metadata", Needs: onObject("w"),
		Do: (*Service).setBlobMetadata},
	{Name: "GetBlobTags", Method: get, On: onBlob, Comp: "tags", Needs: onRecord("t"), Do: (*Service).getBlobTags},
	{Name: "SetBlobTags", Method: put, On: onBlob, Comp: "tags", Needs: onRecord("t"), Do: (*Service).setBlobTags},
	{Name: "LeaseBlob", Method: put, On: onBlob, Comp: "lease", Needs: onObject("wd"), Do: (*Service).leaseBlob},
	{Name: "SnapshotBlob", Method: put, On: onBlob, Comp: "snapshot", Needs: onObject("cw"), Do: (*Service).snapshotBlob},
	{Name: "CopyBlob", Method: put, On: onBlob, Has: []string{copySourceHeader},
		HasNot: []string{blobTypeHeader, requiresSync}, Needs: onObject("cw"), Do: (*Service).copyBlob,
		State: frontend.Partial, Note: "Page and append blobs are not copied to another encryption scope."},
	{Name: "CopyBlobFromURL", Method: put, On: onBlob, Has: []string{copySourceHeader, requiresSync},
		HasNot: []string{blobTypeHeader}, Needs: onObject("cw"), Do: (*Service).copyBlobFromURL,
		State: frontend.Partial, Note: "Tags of a source in another service cannot be taken over."},
	{Name: "AbortCopyBlob", Method: put, On: onBlob, Comp: "copy", Needs: onObject("w"), Do: (*Service).abortCopy},
	{Name: "DeleteBlob", Method: del, On: onBlob, Needs: onRecord(deleteLetters), Do: (*Service).deleteBlob},
	{Name: "UndeleteBlob", Method: put, On: onBlob, Comp: "undelete", Needs: onObject("w"), Do: (*Service).undeleteBlob},
	{Name: "SetBlobTier", Method: put, On: onBlob, Comp: "tier", Needs: onRecord("w"), Do: (*Service).setBlobTier},
	{Name: "SetBlobExpiry", Method: put, On: onBlob, Comp: "expiry", Needs: onObject("w"), Do: (*Service).setBlobExpiry},
	{Name: "SetBlobImmutabilityPolicy", Method: put, On: onBlob, Comp: "immutabilitypolicies", Needs: immutable,
		Do: (*Service).setImmutabilityPolicy},
	{Name: "DeleteBlobImmutabilityPolicy", Method: del, On: onBlob, Comp: "immutabilitypolicies", Needs: immutable,
		Do: (*Service).deleteImmutabilityPolicy},
	{Name: "SetBlobLegalHold", Method: put, On: onBlob, Comp: "legalhold", Needs: immutable, Do: (*Service).setLegalHold},
	{Name: "QueryBlobContents", Method: post, On: onBlob, Comp: "query", Needs: onRecord("r"),
		Do: (*Service).queryBlobContents},
	{Name: "PreflightBlobRequest", Method: options, On: onBlob, Needs: everyone, Do: (*Service).preflight},

	// Block blobs.
	{Name: "PutBlock", Method: put, On: onBlob, Comp: "block", HasNot: []string{copySourceHeader}, Needs: onObject("cw"),
		Do: (*Service).putBlock},
	{Name: "PutBlockFromURL", Method: put, On: onBlob, Comp: "block", Has: []string{copySourceHeader},
		Needs: onObject("cw"), Do: (*Service).putBlockFromURL},
	{Name: "PutBlockList", Method: put, On: onBlob, Comp: "blocklist", Needs: onObject("cw"), Do: (*Service).putBlockList},
	{Name: "GetBlockList", Method: get, On: onBlob, Comp: "blocklist", Needs: readBlob, Do: (*Service).getBlockList},

	// Page blobs.
	{Name: "PutPage", Method: put, On: onBlob, Comp: "page", HasNot: []string{copySourceHeader}, Needs: onObject("w"),
		Do: (*Service).putPage},
	{Name: "PutPageFromURL", Method: put, On: onBlob, Comp: "page", Has: []string{copySourceHeader}, Needs: onObject("w"),
		Do: (*Service).putPageFromURL},
	{Name: "GetPageRanges", Method: get, On: onBlob, Comp: "pagelist", Needs: readBlob, Do: (*Service).getPageRanges},
	{Name: "IncrementalCopyBlob", Method: put, On: onBlob, Comp: "incrementalcopy", Needs: onObject("cw"),
		Do: (*Service).incrementalCopy},

	// Append blobs.
	{Name: "AppendBlock", Method: put, On: onBlob, Comp: "appendblock", HasNot: []string{copySourceHeader},
		Needs: onObject("aw"), Do: (*Service).appendBlock},
	{Name: "AppendBlockFromURL", Method: put, On: onBlob, Comp: "appendblock", Has: []string{copySourceHeader},
		Needs: onObject("aw"), Do: (*Service).appendBlockFromURL},
	{Name: "SealAppendBlob", Method: put, On: onBlob, Comp: "seal", Needs: onObject("w"), Do: (*Service).sealBlob},
}
