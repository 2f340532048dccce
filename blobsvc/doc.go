// Package blobsvc is the Blob service: containers, and block, append and page blobs with their snapshots.
//
// # Concepts
//
// Everything but content lives in one database of package store: containers, blobs, uncommitted blocks. keys.go has the
// drawing of its keys, codec.go the form of its records. Content lives in the extents of package extent; a blob refers to
// it by pieces (content.go), so that Put Block List, Snapshot and Copy move no bytes.
//
// A request is served by the handler of its row in operations.go. A handler parses, checks and acts in one transaction, and
// answers. Content is received before that transaction (upload.go), is durable then, and belongs to nothing if the
// transaction refuses it; background work (clean.go) gives its space back.
//
// # Where to start
//
// operations.go to find an operation; block_blob.go for the life of an upload; blob_list.go for how listings seek;
// lease.go and block_list.go for the two state machines.
//
// # How true it is
//
// docs/blob.md lists what works and what differs from Azure.
package blobsvc
