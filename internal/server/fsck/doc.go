// Package fsck checks a data folder that no process uses: all invariants between the files of the Table and the Blob
// service, the extents with blob content, and the streams of the Queue service.
//
// It knows the files of a data folder, and which of them may be absent. The checkers of the services verify the content
// of the files. Without Options.Repair it changes nothing: the queues, whose server repairs what it opens, are checked
// in a temporary copy.
//
// Start at [Check].
package fsck
