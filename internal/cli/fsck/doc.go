// Package fsck checks a data folder that no process uses: every invariant between the files of the Table and the Blob
// service, the extents with blob content, and the streams of the Queue service.
//
// It knows what a data folder consists of, and what may be absent; what the files must contain is known to the
// services, whose checkers it runs. Without Options.Repair it changes nothing: the queues, whose server repairs what it opens, are
// checked in a temporary copy.
//
// Start at [Check].
package fsck
