// Package seed fills a server from a file: tables with entities, queues with messages, containers with blobs,
// and in accounts with a hierarchical namespace directories with owners and access control lists.
//
// A seed only adds. Entities and blobs that exist stay as they are, and messages are put only into a queue that the
// seed itself makes, so that a restart on the same data neither takes changes back nor repeats messages.
//
// docs/testing.md describes the file.
package seed
