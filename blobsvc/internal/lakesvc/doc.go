// Package lakesvc serves the dfs endpoint: Data Lake Storage Gen2, a second protocol for the containers and blobs of
// the Blob service, which it calls filesystems and paths.
// https://learn.microsoft.com/rest/api/storageservices/data-lake-storage-gen2
//
// It has an operations table (operations.go) and handlers of its own; what requests of both protocols have in common,
// such as conditions, leases, keys and bodies, is in package endpoint, and the state is that of the Blob service.
// Package blobsvc opens the state, and decides by host name or parameters which of both protocols a request speaks.
//
// docs/datalake.md lists what works and what differs from Azure.
package lakesvc
