// Package maintain does the background work of the Blob service's state. All of it continues after a restart, since the
// database records the remaining work:
//
//   - garbage: the contents of deleted containers and directories, and contents and block sets without a reference, are
//     removed in batches (garbage.go);
//   - retention: soft-deleted blobs, directories and containers are removed at its end, uncommitted blocks a week after
//     the last of them was staged (purge.go);
//   - expiry: blobs whose expiry time has come are deleted (expiry.go);
//   - access times that were noted in memory are written (accesses.go);
//   - compaction gives back the space of content that lost its last reference (compact.go).
//
// The methods of [Maintenance] are the rounds, which the service calls. Each step is a transaction that checks what it
// removes, so that two nodes of a cluster may do the same round at a time. The package builds on records and trees. Of
// the operations it calls one, the deletion of a blob that has expired ([ExpireFunc]).
package maintain
