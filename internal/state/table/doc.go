// Package table keeps the tables and entities of the Table service in one file: records, keys, transitions, conditions,
// the log of changes, background deletion and the checker. It knows no HTTP and no protocol: times, conditions and
// limits of a caller come as values, and errors are the package's own.
//
// # Where to start
//
//   - store.go: [Store], opened once for a process.
//   - keys.go and record.go: what is in the file. Entities are in package entity.
//   - table.go: creating, listing and deleting tables, and their access policies.
//   - mutation.go: the state machine of an entity; entity.go carries mutations out, alone or as a transaction.
//   - query.go: reads of one entity and of key ranges, confined by scope.go.
//   - changelog.go: the log of a table's changes; feed.go reads it.
//   - clean.go: removes the entities of deleted tables; check.go: the checker; reset.go: removes everything.
//
// # Time
//
// Every mutation gets a Timestamp from the caller's clock. Timestamps strictly advance with each change of an entity,
// and no two changes in one process have the same one, except the entities of one transaction, which share theirs.
//
// # Closures
//
// Functions that this package is given for a read run inside it, on memory that is not valid afterwards. They may run
// twice: only their last run counts.
package table
