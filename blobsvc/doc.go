// Package blobsvc is the Blob service: containers, and block, append and page blobs with their snapshots and versions.
//
// # Concepts
//
// A request is served by the handler of its row in operations.go. A handler parses the request into values
// (internal/endpoint, new_blob.go), calls the state once, and renders the result (response.go, xml.go). What the
// service keeps, and every change of it, is in internal/state, which knows no HTTP; internal/endpoint maps its errors
// to Azure's in one place. It has what the dfs endpoint, internal/lakesvc, shares with this one.
//
// Content is received before the transaction that refers to it (internal/endpoint, internal/content). It is durable
// then, and belongs to no blob if the transaction refuses it; compaction gives its space back. maintenance.go runs the
// work that no request waits for.
//
// # Packages
//
//	internal/endpoint    what requests to both endpoints have in common
//	internal/lakesvc     the dfs endpoint: its operations and handlers
//	internal/state       records, transitions, conditions, retention, background work, checks
//	internal/content     bytes on their way to extents and back
//	internal/encryption  customer-provided keys and encryption scopes
//	internal/copysource  copies from sources outside this process
//	internal/changefeed  the files of the change feed
//	internal/website     static websites
//	internal/query       Query Blob Contents, with internal/parquet; internal/avro writes its answers and the change feed
//
// # Where to start
//
// operations.go to find an operation; put_blob.go for the life of an upload; the package comment of internal/state for
// what a write does.
//
// # How true it is
//
// docs/blob.md lists what works and what differs from Azure.
package blobsvc
