// Package endpoint has what the two endpoints of the Blob service share: the Blob protocol of package blobsvc and the
// dfs protocol of package lakesvc, which serve the same containers and blobs.
//
// A [Call] is one request. Its methods read the headers and parameters that both protocols have in common into values
// of package state: the resource (call.go), what the caller may do (access.go), conditions, leases and ranges
// (request.go, lease.go), the body (body.go, structured.go), keys (encryption.go). Others set the headers of answers
// (answer.go, reading.go), and some serve an operation that both protocols have, such as Set Blob Expiry. errors.go
// maps the errors of the state to Azure's, in one place. [Storage] holds what the calls act on.
//
// What only one protocol has is in its own package, which has the operations table and the handlers.
package endpoint
