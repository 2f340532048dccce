// Package accounts adds, changes and removes storage accounts while the server runs.
//
// # Concepts
//
// The accounts are records in the database of the Blob service, so that they are as durable as data, and in a cluster
// every node gets them with the log of that database. The [Manager] keeps the set of accounts that requests ask
// ([auth.Accounts]) as the records are: after a change on a single server, and on a node of a cluster when it applies
// the log, for the changes of all nodes, its own included. No node reads a file, and none is asked.
//
// Accounts of the configuration are not records. They cannot be changed here, and hide records of their names.
//
// # Removal
//
// A removed account leaves the set at once, so that its keys, and what they signed, are invalid. Its record stays and
// says so until nothing of the account is left, and a process that was killed continues with it (remove.go). Requests
// that were authorized before may still create a container, a queue or a table: so the last look is a minute after the
// removal, and the name is free only then. If deletion of data was not asked for, nothing is ever deleted: if the last
// look finds something, the account is served again.
//
// # Where to start
//
// manager.go for how records become accounts, change.go for what can be asked, remove.go for the end of an account.
package accounts
