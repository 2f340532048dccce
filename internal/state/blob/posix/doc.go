// Package posix evaluates the access control lists of files and directories: POSIX.1e lists as accounts with a
// hierarchical namespace have them. It stores nothing and knows no protocol but the text form of lists.
//
// An [Access] is what one file or directory has: permissions of its owner, its owning group and others, named users and
// groups with a mask, a sticky bit, and for a directory the default list that new children get. A [Caller] is who asks.
//
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control
package posix
