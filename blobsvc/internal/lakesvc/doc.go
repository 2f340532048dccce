// Package lakesvc serves the dfs endpoint: Data Lake Storage Gen2, a second protocol for the containers and blobs of
// the Blob service, which it calls filesystems and paths.
// https://learn.microsoft.com/rest/api/storageservices/data-lake-storage-gen2
//
// It has its own operations table (operations.go) and handlers. Package endpoint has the code that requests of both
// protocols share, such as conditions, leases, keys and bodies. Both protocols work on the state of the Blob service:
// package blobsvc opens it, and decides by host name or parameters which protocol a request uses.
//
// docs/datalake.md describes the service, and how it differs from Azure.
package lakesvc
