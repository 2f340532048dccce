package authmatrix

// rule says who may call an operation, in the terms of the reference.
//
//   - Account SAS:
//     https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation
//   - Service SAS: https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-permissions
//   - Roles:
//     https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#permissions-for-calling-data-operations
type rule struct {
	// on is the account SAS resource type: "s", "c" or "o".
	on string
	// parts marks a batch: an account SAS for any resource type may send it, since each part is authorised by itself.
	parts bool
	// account are the letters of an account SAS, one of which suffices; "" means that no account SAS suffices. all means
	// that all letters are needed.
	account string
	all     bool
	// service are the letters of a service SAS for the container, queue or table; "" means that none suffices. "=" means
	// the same as account.
	service string
	// object reports whether a SAS for one blob suffices too.
	object bool
	// directory reports whether a SAS for a directory (sr=d) suffices for an operation on the container that is limited to
	// the directory. What is on a blob follows from object.
	directory bool
	// source are the letters of which one is needed for the path that a header names; "" is no such path.
	source string
	// record reports whether a SAS for one snapshot or version suffices: the operation acts on the resource of such a SAS,
	// or on nothing.
	record bool
	// version are the letters for a version that the URL names, and versionRoles the roles, where they are not those for
	// the blob.
	version, versionRoles string
	// roles are the letters of the roles with access: R(eader), C(ontributor), O(wner), D(elegator), P(rocessor),
	// S(ender), M(anager): Storage Account Contributor, in every service.
	roles string
	// public is the lowest public access level for anonymous callers: "", "container", "blob"; "*" means all callers.
	public string
	// bearerOnly marks an operation that requires a bearer token; the account's key does not suffice.
	bearerOnly bool
}

const (
	readers = "RCO"
	writers = "CO"
)

// rules has the operations by service and name; if operations of several levels have the same name and different rules,
// the level follows after an at sign.
var rules = map[string]map[string]rule{
	"blob": {
		"ListContainers":           {on: "s", account: "l", roles: readers + "M"},
		"GetBlobServiceProperties": {on: "s", account: "r", roles: "M"},
		"SetBlobServiceProperties": {on: "s", account: "w", roles: "M"},
		"GetBlobServiceStats":      {on: "s", account: "r", roles: "M"},
		// Any permission lets a SAS read the account's kind; of the roles, the manager's alone does.
		"GetAccountInformation":           {on: "s", account: "rwdxylacutfi", roles: "M"},
		"GetAccountInformation@container": {on: "c", account: "rwdxylacutfi", service: "=", roles: "M"},
		"GetAccountInformation@blob": {on: "o", account: "rwdxylacutfi", service: "=", object: true, record: true,
			roles: "M"},
		"GetUserDelegationKey":       {on: "s", roles: "RCODM", bearerOnly: true},
		"BlobBatch":                  {on: "s", parts: true, account: "dxw", roles: readers},
		"BlobBatch@container":        {on: "c", parts: true, account: "dxw", service: "=", roles: readers},
		"FindBlobsByTags":            {on: "o", account: "f", roles: "O"},
		"FindBlobsByTagsInContainer": {on: "c", account: "f", service: "=", roles: "O"},
		"PreflightBlobRequest":       {public: "*"},

		"CreateContainer":        {on: "c", account: "cw", roles: writers + "M"},
		"GetContainerProperties": {on: "c", account: "r", roles: readers + "M", public: "container"},
		"GetContainerMetadata":   {on: "c", account: "r", roles: readers + "M", public: "container"},
		"SetContainerMetadata":   {on: "c", account: "w", roles: writers + "M"},
		"GetContainerACL":        {on: "c", roles: "OM"},
		"SetContainerACL":        {on: "c", roles: "OM"},
		"DeleteContainer":        {on: "c", account: "d", roles: writers + "M"},
		"RestoreContainer":       {on: "c", account: "w", roles: writers + "M", source: "w"},
		"RenameContainer":        {on: "c", account: "w", roles: writers + "M", source: "w"},
		"LeaseContainer":         {on: "c", account: "wd", roles: writers + "M"},
		"ListBlobs": {on: "c", account: "l", service: "=", directory: true, roles: readers,
			public: "container"},

		"PutBlob":        {on: "o", account: "cw", service: "=", object: true, roles: writers},
		"PutBlobFromURL": {on: "o", account: "cw", service: "=", object: true, roles: writers, source: "r"},
		"GetBlob": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"GetBlobProperties": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"SetBlobProperties": {on: "o", account: "w", service: "=", object: true, roles: writers},
		"GetBlobMetadata": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"SetBlobMetadata": {on: "o", account: "w", service: "=", object: true, roles: writers},
		"GetBlobTags":     {on: "o", account: "t", service: "=", object: true, record: true, roles: "O"},
		"SetBlobTags":     {on: "o", account: "t", service: "=", object: true, record: true, roles: "O"},
		"LeaseBlob":       {on: "o", account: "wd", service: "=", object: true, roles: writers},
		"SnapshotBlob":    {on: "o", account: "cw", service: "=", object: true, roles: writers},
		"CopyBlob":        {on: "o", account: "cw", service: "=", object: true, roles: writers, source: "r"},
		"CopyBlobFromURL": {on: "o", account: "cw", service: "=", object: true, roles: writers, source: "r"},
		"AbortCopyBlob":   {on: "o", account: "w", service: "=", object: true, roles: writers},
		// The action for versions is deleteBlobVersion, which the Contributor does not have.
		"DeleteBlob": {on: "o", account: "d", service: "=", object: true, record: true, roles: writers, version: "x",
			versionRoles: "O"},
		"UndeleteBlob":                 {on: "o", account: "w", service: "=", object: true, roles: writers, source: "w"},
		"SetBlobTier":                  {on: "o", account: "w", service: "=", object: true, record: true, roles: writers},
		"SetBlobExpiry":                {on: "o", account: "w", service: "=", object: true, roles: writers},
		"SetBlobImmutabilityPolicy":    {on: "o", account: "i", service: "=", object: true, record: true, roles: "O"},
		"DeleteBlobImmutabilityPolicy": {on: "o", account: "i", service: "=", object: true, record: true, roles: "O"},
		"SetBlobLegalHold":             {on: "o", account: "i", service: "=", object: true, record: true, roles: "O"},
		"QueryBlobContents":            {on: "o", account: "r", service: "=", object: true, record: true, roles: readers},
		"PutBlock":                     {on: "o", account: "cw", service: "=", object: true, roles: writers},
		"PutBlockFromURL":              {on: "o", account: "cw", service: "=", object: true, roles: writers, source: "r"},
		// A SAS with create permission may also create a new block blob.
		"PutBlockList": {on: "o", account: "cw", service: "=", object: true, roles: writers},
		"GetBlockList": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"PutPage":        {on: "o", account: "w", service: "=", object: true, roles: writers},
		"PutPageFromURL": {on: "o", account: "w", service: "=", object: true, roles: writers, source: "r"},
		"GetPageRanges": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"IncrementalCopyBlob": {on: "o", account: "cw", service: "=", object: true, roles: writers, source: "r"},
		"AppendBlock":         {on: "o", account: "aw", service: "=", object: true, roles: writers},
		"AppendBlockFromURL":  {on: "o", account: "aw", service: "=", object: true, roles: writers, source: "r"},
		"SealAppendBlob":      {on: "o", account: "w", service: "=", object: true, roles: writers},
	},
	// The letters are those of the table for directories and blobs; the operations are those that the reference gives the
	// names of the Blob service's with the same effect.
	// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
	"dfs": {
		"FilesystemList":          {on: "s", account: "l", roles: readers + "M"},
		"PreflightFilesystem":     {public: "*"},
		"FilesystemCreate":        {on: "c", account: "cw", roles: writers + "M"},
		"FilesystemSetProperties": {on: "c", account: "w", roles: writers + "M"},
		"FilesystemGetProperties": {on: "c", account: "r", roles: readers + "M", public: "container"},
		"FilesystemDelete":        {on: "c", account: "d", roles: writers + "M"},
		"PathList": {on: "c", account: "l", service: "=", directory: true, roles: readers,
			public: "container"},
		"FilesystemListBlobHierarchySegment": {on: "c", account: "l", service: "=", directory: true, roles: readers,
			public: "container"},

		"PathCreate": {on: "o", account: "cw", service: "=", object: true, roles: writers},
		// The source needs the permission to move or to delete it: TestSources.
		"PathRename":        {on: "o", account: "cwm", service: "=", object: true, roles: writers, source: "md"},
		"PathAppend":        {on: "o", account: "aw", service: "=", object: true, roles: writers},
		"PathFlush":         {on: "o", account: "aw", service: "=", object: true, roles: writers},
		"PathSetProperties": {on: "o", account: "w", service: "=", object: true, roles: writers},
		"PathSetAccessControl": {on: "o", account: "op", service: "=", object: true,
			roles: "O"},
		"PathSetAccessControlRecursive": {on: "o", account: "op", service: "=", object: true, roles: "O"},
		"PathGetProperties":             {on: "o", account: "re", service: "=", object: true, record: true, roles: readers},
		"PathGetStatus":                 {on: "o", account: "re", service: "=", object: true, record: true, roles: readers},
		"PathGetAccessControl":          {on: "o", account: "re", service: "=", object: true, record: true, roles: readers},
		"PathCheckAccess":               {on: "o", account: "re", service: "=", object: true, record: true, roles: readers},
		"PathRead": {on: "o", account: "r", service: "=", object: true, record: true, roles: readers,
			public: "blob"},
		"PathDelete":    {on: "o", account: "d", service: "=", object: true, roles: writers},
		"PathLease":     {on: "o", account: "wd", service: "=", object: true, roles: writers},
		"PathSetExpiry": {on: "o", account: "w", service: "=", object: true, roles: writers},
		"PathUndelete":  {on: "o", account: "w", service: "=", object: true, roles: writers, source: "w"},
		"PreflightPath": {public: "*"},
	},
	"queue": {
		"ListQueues":                {on: "s", account: "l", roles: "RCM"},
		"GetQueueServiceProperties": {on: "s", account: "r", roles: "M"},
		"SetQueueServiceProperties": {on: "s", account: "w", roles: "M"},
		"GetQueueServiceStats":      {on: "s", account: "r", roles: "M"},
		"GetUserDelegationKey":      {on: "s", roles: "RCPSM", bearerOnly: true},
		"PreflightQueueRequest":     {public: "*"},

		"CreateQueue":      {on: "c", account: "cw", roles: "CM"},
		"DeleteQueue":      {on: "c", account: "d", roles: "CM"},
		"GetQueueMetadata": {on: "c", account: "r", service: "=", roles: "RCM"},
		"SetQueueMetadata": {on: "c", account: "w", roles: "CM"},
		"GetQueueACL":      {on: "c", roles: "M"},
		"SetQueueACL":      {on: "c", roles: "M"},

		"PutMessage":    {on: "o", account: "a", service: "=", roles: "CS"},
		"GetMessages":   {on: "o", account: "p", service: "=", roles: "CP"},
		"PeekMessages":  {on: "o", account: "r", service: "=", roles: "RCP"},
		"ClearMessages": {on: "o", account: "d", roles: "C"},
		"UpdateMessage": {on: "o", account: "u", service: "=", roles: "C"},
		"DeleteMessage": {on: "o", account: "p", service: "=", roles: "CP"},
	},
	"table": {
		"GetTableServiceProperties": {on: "s", account: "r", roles: "M"},
		"SetTableServiceProperties": {on: "s", account: "w", roles: "M"},
		"GetTableServiceStats":      {on: "s", account: "r", roles: "M"},
		"PreflightTableRequest":     {public: "*"},

		"QueryTables": {on: "c", account: "l", roles: "RCM"},
		"CreateTable": {on: "c", account: "cw", roles: "CM"},
		"DeleteTable": {on: "c", account: "d", roles: "CM"},
		"GetTableAcl": {on: "c", roles: "M"},
		"SetTableAcl": {on: "c", roles: "M"},

		"QueryEntities":         {on: "o", account: "r", service: "=", roles: "RC"},
		"InsertEntity":          {on: "o", account: "a", service: "=", roles: "C"},
		"UpdateEntity":          {on: "o", account: "u", service: "=", roles: "C"},
		"MergeEntity":           {on: "o", account: "u", service: "=", roles: "C"},
		"InsertOrReplaceEntity": {on: "o", account: "au", all: true, service: "=", roles: "C"},
		"InsertOrMergeEntity":   {on: "o", account: "au", all: true, service: "=", roles: "C"},
		"DeleteEntity":          {on: "o", account: "d", service: "=", roles: "C"},
		// Each change is then checked by itself.
		"EntityGroupTransaction": {on: "o", parts: true, account: "raud", service: "=", roles: "RC"},
	},
}

// gaps are the known differences between a service and its rule, by service and operation. The matrix fails for any
// other difference, and for a gap that no longer exists.
var gaps = map[string]string{}
