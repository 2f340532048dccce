// Package state keeps queues in JetStream: what the Queue service knows, without HTTP and XML.
//
// # Where things are
//
// Each queue is a stream. Its subjects are slots for messages; of a slot's records the last one counts. A
// record has the message's body as payload and everything else in headers (record.go). The catalog, one more
// stream, lists the queues with their metadata and access policies (catalog.go).
//
// # Who decides
//
// The stream is the authority. Every change of a message (claiming it, changing it, deleting it) is one publish that
// says which record it replaces, by sequence number, and JetStream refuses it if another came first: between requests,
// and between front-ends on one NATS. A pop receipt is that sequence number with a keyed hash, so a stale or invented
// receipt cannot do anything, wherever it is used. The rules of what may follow what are a pure function (machine.go).
//
// The index (index.go) is a cache of the stream: which message becomes visible when, without bodies. It decides only
// what is tried first. It is filled in the background when a queue is first used, by reading the records' headers; Get
// hands out what it finds while that goes on. Where others may write to the same streams it follows them.
//
// # When a change is acknowledged
//
// A change is acknowledged once JetStream has it and, on an embedded server with full durability, once it is synced
// to disk; concurrent changes share the sync (package jetstreamfiles).
//
// # What is void
//
// JetStream removes nothing by itself. A message is deleted by a record without a body, a tombstone, that stays until
// another message takes the slot. The stream's old end is cut off behind a floor that is durable in the catalog
// (floor.go, compact.go); records before the floor are void, whatever JetStream reads from its files after a crash. The
// record's expiry time and the caller's clock decide when a message is gone.
//
// # What is damaged
//
// Records carry checksums. A message whose record does not match is set aside (queue.go); a queue that lost records, or
// whose record in the catalog cannot be read, answers [ErrDamaged] until [Repair] has decided. No stream is removed
// unless the catalog proves that it is no queue's (stream.go).
//
// Where to start: [Open], [Store], [Queue].
package state
