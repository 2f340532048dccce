// Package tree has the containers of hierarchical accounts as trees of directories and files: the entries of
// directories, the inodes that they lead to, and the rights on the way.
//
// A path is resolved to its [Place] once, in the transaction that uses it ([Find]); a [Link] gives a path that does not
// exist an item, with the directories above it; a [Walk] visits the entries below a directory in the order of listings.
// So a rename moves one entry ([Place.Move]), whatever is below it, and the deletion of a directory removes one entry:
// everything below it becomes garbage ([Discard]), which package maintain collects.
//
// The functions work within the transaction of their caller and on the records of package record. They know neither
// preconditions nor leases, versions and events: the operations in package blob do.
//
// Start with place.go.
package tree
