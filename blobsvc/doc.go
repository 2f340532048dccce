// Package blobsvc is the Blob service: containers, and block, append and page blobs with their snapshots and versions,
// as an [http.Handler] with its data folder. Its clients are Azure's: the Azure SDKs, azcopy, Storage Explorer.
//
//	service, err := blobsvc.New(blobsvc.Config{Folder: "data"})
//	defer service.Close()
//	err = http.ListenAndServe("127.0.0.1:10000", service.Handler())
//
// A write is on disk before it is acknowledged. Requests name the account in the path, or as the first label of the
// host's name. With Config.HierarchicalNamespace containers are trees of directories, which clients of Data Lake
// Storage reach by [Service.LakeHandler]. Package server runs all three services in one folder, with settings for each
// account, bearer tokens, metrics, backups and clusters; package lazulitest runs them in tests. docs/blob.md and
// docs/datalake.md list what works and what differs from Azure.
//
// # How a request is served
//
// A request is served by the handler of its row in operations.go. A handler parses the request into values
// (internal/endpoint, new_blob.go), calls the state once, and renders the result (response.go, xml.go). What the
// service keeps, and every change of it, is in internal/state/blob, which knows no HTTP; internal/endpoint maps its
// errors to Azure's in one place. It has what the dfs endpoint, internal/lakesvc, shares with this one.
//
// Content is received before the transaction that refers to it (internal/endpoint, internal/content). It is durable
// then, and belongs to no blob if the transaction refuses it; compaction gives its space back. maintenance.go runs the
// work that no request waits for.
//
// # Packages
//
//	internal/endpoint    what requests to both endpoints have in common
//	internal/lakesvc     the dfs endpoint: its operations and handlers
//	internal/copysource  copies from sources outside this process
//	internal/changefeed  the files of the change feed
//	internal/website     static websites
//	internal/query       Query Blob Contents, with internal/parquet; internal/avro writes its answers and the change feed
//
// # Where to start in the source
//
// operations.go to find an operation; put_blob.go for the life of an upload; the package comment of internal/state/blob
// for what a write does.
package blobsvc
