package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
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
)

// Operations returns the names of the operations that [Service.Handler] serves, as in the REST reference: "PutBlob". A
// name is there once for each of its methods.
func Operations() []string { return frontend.Names(operations) }

// operations is the operations table of the Blob service: a row per operation of the REST reference, and method.
// https://learn.microsoft.com/rest/api/storageservices/operations-on-the-blob-service
var operations = []op{
	// The account.
	{Name: "ListContainers", Method: get, On: endpoint.OnService, Comp: "list", Needs: endpoint.OnAccount("l"),
		Do: (*Service).listContainers},
	{Name: "GetBlobServiceProperties", Method: get, On: endpoint.OnService, Comp: "properties", Restype: "service",
		Needs: endpoint.OfManagers("r"), Do: (*Service).getServiceProperties},
	{Name: "SetBlobServiceProperties", Method: put, On: endpoint.OnService, Comp: "properties", Restype: "service",
		Needs: endpoint.OfManagers("w"), Do: (*Service).setServiceProperties},
	{Name: "GetBlobServiceStats", Method: get, On: endpoint.OnService, Comp: "stats", Restype: "service",
		Needs: endpoint.OfManagers("r"),
		Do:    (*Service).getServiceStats},
	{Name: "GetAccountInformation", Method: get, On: endpoint.OnService, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnAccount), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: endpoint.OnService, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnAccount), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: get, On: endpoint.OnContainer, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnThisContainer), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: endpoint.OnContainer, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnThisContainer), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: get, On: endpoint.OnBlob, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnRecord), Do: (*Service).getAccountInformation},
	{Name: "GetAccountInformation", Method: head, On: endpoint.OnBlob, Comp: "properties", Restype: "account",
		Needs: endpoint.AboutAccount(endpoint.OnRecord), Do: (*Service).getAccountInformation},
	{Name: "GetUserDelegationKey", Method: post, On: endpoint.OnService, Comp: "userdelegationkey", Restype: "service",
		Needs: endpoint.Delegation, Do: (*Service).getUserDelegationKey},
	{Name: "BlobBatch", Method: post, On: endpoint.OnService, Comp: "batch", Needs: endpoint.AccountParts,
		Do: (*Service).blobBatch},
	// The JavaScript client sends this for the account of a path-style address.
	{Name: "BlobBatch", Method: post, On: endpoint.OnService, Comp: "batch", Restype: "container",
		Needs: endpoint.AccountParts,
		Do:    (*Service).blobBatch},
	{Name: "FindBlobsByTags", Method: get, On: endpoint.OnService, Comp: "blobs", Needs: endpoint.FindBlobs,
		Do: (*Service).findBlobsByTags},
	{Name: "PreflightBlobRequest", Method: options, On: endpoint.OnService, Needs: endpoint.Everyone,
		Do: (*Service).preflight},

	// Containers.
	{Name: "CreateContainer", Method: put, On: endpoint.OnContainer, Restype: "container",
		Needs: endpoint.OnContainerByAccount("cw"),
		Do:    (*Service).createContainer},
	{Name: "GetContainerProperties", Method: get, On: endpoint.OnContainer, Restype: "container",
		Needs: endpoint.ReadContainer,
		Do:    (*Service).getContainerProperties},
	{Name: "GetContainerProperties", Method: head, On: endpoint.OnContainer, Restype: "container",
		Needs: endpoint.ReadContainer,
		Do:    (*Service).getContainerProperties},
	{Name: "GetContainerMetadata", Method: get, On: endpoint.OnContainer, Comp: "metadata", Restype: "container",
		Needs: endpoint.ReadContainer, Do: (*Service).getContainerMetadata},
	{Name: "GetContainerMetadata", Method: head, On: endpoint.OnContainer, Comp: "metadata", Restype: "container",
		Needs: endpoint.ReadContainer, Do: (*Service).getContainerMetadata},
	{Name: "SetContainerMetadata", Method: put, On: endpoint.OnContainer, Comp: "metadata", Restype: "container",
		Needs: endpoint.OnContainerByAccount("w"), Do: (*Service).setContainerMetadata},
	{Name: "GetContainerACL", Method: get, On: endpoint.OnContainer, Comp: "acl", Restype: "container",
		Needs: endpoint.OfAccess,
		Do:    (*Service).getContainerACL},
	{Name: "GetContainerACL", Method: head, On: endpoint.OnContainer, Comp: "acl", Restype: "container",
		Needs: endpoint.OfAccess,
		Do:    (*Service).getContainerACL},
	{Name: "SetContainerACL", Method: put, On: endpoint.OnContainer, Comp: "acl", Restype: "container",
		Needs: endpoint.OfAccess,
		Do:    (*Service).setContainerACL},
	{Name: "DeleteContainer", Method: del, On: endpoint.OnContainer, Restype: "container",
		Needs: endpoint.OnContainerByAccount("d"),
		Do:    endpoint.Both[*Service]((*call).DeleteContainer),
		Note:  "A deleted container's name can be used again at once: ContainerBeingDeleted is never answered."},
	{Name: "RestoreContainer", Method: put, On: endpoint.OnContainer, Comp: "undelete", Restype: "container",
		Needs: endpoint.OnContainerByAccount("w"), Touches: []frontend.Touch{endpoint.RestoresContainer},
		Do: (*Service).restoreContainer},
	{Name: "RestoreContainer", Method: put, On: endpoint.OnService, Comp: "undelete", Restype: "container",
		Needs: endpoint.OnContainerByAccount("w"), Touches: []frontend.Touch{endpoint.RestoresContainer},
		Do: (*Service).restoreContainer},
	{Name: "RenameContainer", Method: put, On: endpoint.OnContainer, Comp: "rename", Restype: "container",
		Needs: endpoint.OnContainerByAccount("w"), Touches: []frontend.Touch{endpoint.TakesContainer},
		Do:   (*Service).renameContainer,
		Note: "In accounts with a hierarchical namespace."},
	{Name: "LeaseContainer", Method: put, On: endpoint.OnContainer, Comp: "lease", Restype: "container",
		Needs: endpoint.OnContainerByAccount("wd"), Do: (*Service).leaseContainer},
	{Name: "ListBlobs", Method: get, On: endpoint.OnContainer, Comp: "list", Restype: "container",
		Needs: endpoint.ListContainer,
		Do:    (*Service).listBlobs},
	{Name: "FindBlobsByTagsInContainer", Method: get, On: endpoint.OnContainer, Comp: "blobs", Restype: "container",
		Needs: endpoint.OnThisContainer("f"), Do: (*Service).findBlobsByTags},
	{Name: "BlobBatch", Method: post, On: endpoint.OnContainer, Comp: "batch", Restype: "container",
		Needs: endpoint.ContainerParts,
		Do:    (*Service).blobBatch},
	{Name: "PreflightBlobRequest", Method: options, On: endpoint.OnContainer, Restype: "container",
		Needs: endpoint.Everyone,
		Do:    (*Service).preflight},

	// Blobs of all types.
	{Name: "PutBlob", Method: put, On: endpoint.OnBlob, HasNot: []string{copySourceHeader}, Needs: endpoint.OnObject("cw"),
		Do: (*Service).putBlob},
	{Name: "PutBlobFromURL", Method: put, On: endpoint.OnBlob, Has: []string{copySourceHeader, blobTypeHeader},
		Needs: endpoint.OnObject("cw"), Touches: endpoint.ReadsSource, Do: (*Service).putBlobFromURL,
		State: frontend.Partial, Note: "Tags of a source in another service cannot be taken over."},
	{Name: "GetBlob", Method: get, On: endpoint.OnBlob, Needs: endpoint.ReadBlob, Do: (*Service).getBlob},
	{Name: "GetBlobProperties", Method: head, On: endpoint.OnBlob, Needs: endpoint.ReadBlob,
		Do: (*Service).getBlobProperties},
	{Name: "SetBlobProperties", Method: put, On: endpoint.OnBlob, Comp: "properties", Needs: endpoint.OnObject("w"),
		Do: (*Service).setBlobProperties},
	{Name: "GetBlobMetadata", Method: get, On: endpoint.OnBlob, Comp: "metadata", Needs: endpoint.ReadBlob,
		Do: (*Service).getBlobMetadata},
	{Name: "GetBlobMetadata", Method: head, On: endpoint.OnBlob, Comp: "metadata", Needs: endpoint.ReadBlob,
		Do: (*Service).getBlobMetadata},
	{Name: "SetBlobMetadata", Method: put, On: endpoint.OnBlob, Comp: "metadata", Needs: endpoint.OnObject("w"),
		Do: (*Service).setBlobMetadata},
	{Name: "GetBlobTags", Method: get, On: endpoint.OnBlob, Comp: "tags", Needs: endpoint.OnRecord("t"),
		Do: (*Service).getBlobTags},
	{Name: "SetBlobTags", Method: put, On: endpoint.OnBlob, Comp: "tags", Needs: endpoint.OnRecord("t"),
		Do: (*Service).setBlobTags},
	{Name: "LeaseBlob", Method: put, On: endpoint.OnBlob, Comp: "lease", Needs: endpoint.OnObject("wd"),
		Do: endpoint.Both[*Service]((*call).LeaseBlob)},
	{Name: "SnapshotBlob", Method: put, On: endpoint.OnBlob, Comp: "snapshot", Needs: endpoint.OnObject("cw"),
		Do: (*Service).snapshotBlob},
	{Name: "CopyBlob", Method: put, On: endpoint.OnBlob, Has: []string{copySourceHeader},
		HasNot: []string{blobTypeHeader, requiresSync}, Needs: endpoint.OnObject("cw"), Touches: endpoint.ReadsSource,
		Do:    (*Service).copyBlob,
		State: frontend.Partial, Note: "Page and append blobs are not copied to another encryption scope."},
	{Name: "CopyBlobFromURL", Method: put, On: endpoint.OnBlob, Has: []string{copySourceHeader, requiresSync},
		HasNot: []string{blobTypeHeader}, Needs: endpoint.OnObject("cw"), Touches: endpoint.ReadsSource,
		Do:    (*Service).copyBlobFromURL,
		State: frontend.Partial, Note: "Tags of a source in another service cannot be taken over."},
	{Name: "AbortCopyBlob", Method: put, On: endpoint.OnBlob, Comp: "copy", Needs: endpoint.OnObject("w"),
		Do: (*Service).abortCopy},
	{Name: "DeleteBlob", Method: del, On: endpoint.OnBlob, Needs: endpoint.OnRecord(endpoint.DeleteLetters),
		Do: (*Service).deleteBlob},
	{Name: "UndeleteBlob", Method: put, On: endpoint.OnBlob, Comp: "undelete", Needs: endpoint.OnObject("w"),
		Touches: []frontend.Touch{endpoint.RestoresFrom}, Do: endpoint.Both[*Service]((*call).UndeleteBlob)},
	{Name: "SetBlobTier", Method: put, On: endpoint.OnBlob, Comp: "tier", Needs: endpoint.OnRecord("w"),
		Do: (*Service).setBlobTier},
	{Name: "SetBlobExpiry", Method: put, On: endpoint.OnBlob, Comp: "expiry", Needs: endpoint.OnObject("w"),
		Do: endpoint.Both[*Service]((*call).SetBlobExpiry)},
	{Name: "SetBlobImmutabilityPolicy", Method: put, On: endpoint.OnBlob, Comp: "immutabilitypolicies",
		Needs: endpoint.Immutable,
		Do:    (*Service).setImmutabilityPolicy},
	{Name: "DeleteBlobImmutabilityPolicy", Method: del, On: endpoint.OnBlob, Comp: "immutabilitypolicies",
		Needs: endpoint.Immutable,
		Do:    (*Service).deleteImmutabilityPolicy},
	{Name: "SetBlobLegalHold", Method: put, On: endpoint.OnBlob, Comp: "legalhold", Needs: endpoint.Immutable,
		Do: (*Service).setLegalHold},
	{Name: "QueryBlobContents", Method: post, On: endpoint.OnBlob, Comp: "query", Needs: endpoint.OnRecord("r"),
		Do: (*Service).queryBlobContents},
	{Name: "PreflightBlobRequest", Method: options, On: endpoint.OnBlob, Needs: endpoint.Everyone,
		Do: (*Service).preflight},

	// Block blobs.
	{Name: "PutBlock", Method: put, On: endpoint.OnBlob, Comp: "block", HasNot: []string{copySourceHeader},
		Needs: endpoint.OnObject("cw"),
		Do:    (*Service).putBlock},
	{Name: "PutBlockFromURL", Method: put, On: endpoint.OnBlob, Comp: "block", Has: []string{copySourceHeader},
		Needs: endpoint.OnObject("cw"), Touches: endpoint.ReadsSource, Do: (*Service).putBlockFromURL},
	{Name: "PutBlockList", Method: put, On: endpoint.OnBlob, Comp: "blocklist", Needs: endpoint.OnObject("cw"),
		Do: (*Service).putBlockList},
	{Name: "GetBlockList", Method: get, On: endpoint.OnBlob, Comp: "blocklist", Needs: endpoint.ReadBlob,
		Do: (*Service).getBlockList},

	// Page blobs.
	{Name: "PutPage", Method: put, On: endpoint.OnBlob, Comp: "page", HasNot: []string{copySourceHeader},
		Needs: endpoint.OnObject("w"),
		Do:    (*Service).putPage},
	{Name: "PutPageFromURL", Method: put, On: endpoint.OnBlob, Comp: "page", Has: []string{copySourceHeader},
		Needs:   endpoint.OnObject("w"),
		Touches: endpoint.ReadsSource, Do: (*Service).putPageFromURL},
	{Name: "GetPageRanges", Method: get, On: endpoint.OnBlob, Comp: "pagelist", Needs: endpoint.ReadBlob,
		Do: (*Service).getPageRanges},
	{Name: "IncrementalCopyBlob", Method: put, On: endpoint.OnBlob, Comp: "incrementalcopy",
		Needs:   endpoint.OnObject("cw"),
		Touches: endpoint.ReadsSource, Do: (*Service).incrementalCopy},

	// Append blobs.
	{Name: "AppendBlock", Method: put, On: endpoint.OnBlob, Comp: "appendblock", HasNot: []string{copySourceHeader},
		Needs: endpoint.OnObject("aw"), Do: (*Service).appendBlock},
	{Name: "AppendBlockFromURL", Method: put, On: endpoint.OnBlob, Comp: "appendblock", Has: []string{copySourceHeader},
		Needs: endpoint.OnObject("aw"), Touches: endpoint.ReadsSource, Do: (*Service).appendBlockFromURL},
	{Name: "SealAppendBlob", Method: put, On: endpoint.OnBlob, Comp: "seal", Needs: endpoint.OnObject("w"),
		Do: (*Service).sealBlob},
}
