package store

// Archive receives the log of a store as it grows, so that the state of each moment can be made again elsewhere: from a
// [Pin] and the groups after it.
//
// Each group has a time, which is taken before the group is appended to the log and goes to the log with it, so that a
// group that only the next Open finds has the time at which it was written. The calls Stamp, Drop and Group come from
// one goroutine at a time, and must be quick: callers of Update wait for them. On a node of a cluster, where Stamp
// returns 0, the groups of all nodes come as the log applies them, also while Stamp or Drop is called.
type Archive interface {
	// Stamp returns the time of the group that is about to be appended, in nanoseconds since 1970. It is later than all
	// times before. Until the next call of Stamp, Drop or Group it is unknown whether the group will be committed. On a
	// node of a cluster it is 0: there the log itself has the time of each group, and several may be appended before the
	// outcome of the first one is known.
	Stamp() int64
	// Drop says that the group of the last Stamp was not written.
	Drop()
	// Group receives a group that is durable in the log, before the callers of its Updates return. Open calls it again for
	// groups that the file lacked. The payload must neither be changed nor kept.
	Group(Group)
	// Sync returns once every group is durable that Group has received. The log may drop them afterwards, so an archive
	// that cannot keep them has to begin again with another Pin.
	Sync()
	// Allow returns why no write may be acknowledged now; nil if writes may. Update asks before its closures run, and once
	// more when the group is durable. It must be quick.
	Allow() error
	// Opened is called at the end of Open with the number of the last group.
	Opened(newest uint64)
}

// Group is the write set of a group of Updates. [Create] takes its payload as a part after those of a [Pin] whose
// [Pin.Group] is lower, and after those of all groups in between.
type Group struct {
	// Prev is the number of the group before. In a replicated log numbers have gaps.
	Prev, Number uint64
	// At is the time that Stamp returned; 0 if the group was written without an archive. Of a log that several nodes
	// share, it is the clock of the node that wrote the group, taken before that was in the log; times of groups of
	// different nodes need not ascend.
	At int64
	// Payload is the encoded write set without attachments.
	Payload []byte
}
