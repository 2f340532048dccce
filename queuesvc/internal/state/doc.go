// Package state keeps queues in JetStream. It implements the Queue service without HTTP and XML.
//
// # Layout
//
// Each queue is a stream. Its subjects are slots for messages; the last record of a slot counts. A record has the message's body as payload and
// everything else in headers (record.go). The catalog, another stream, lists the queues with their metadata and access policies (catalog.go).
//
// # Consistency
//
// The stream is the authority. Every change of a message (claiming, changing or deleting it) is one publish that names the record that it
// replaces, by sequence number. JetStream refuses it if another change came first: between requests, and between front-ends on one NATS. A pop
// receipt is that sequence number with a keyed hash, so a stale or forged receipt has no effect on any front-end. The state machine of a message
// is a pure function (machine.go).
//
// The index (index.go) is a cache of the stream: the time at which each message becomes visible, without bodies. It only determines which
// message is tried first. When a queue is first used, a background goroutine fills the index by reading the records' headers; Get returns what
// it finds meanwhile. If other processes may write to the same streams, the index follows the streams.
//
// # Acknowledgement of a change
//
// A change is acknowledged once JetStream has it and, on an embedded server with full durability, once it is synced to disk; concurrent changes
// share the sync (package jetstreamfiles).
//
// # Void records
//
// JetStream removes nothing by itself. A message is deleted by a record without a body, a tombstone, which stays until another message takes the
// slot. The stream's old end is cut off before a floor that is durable in the catalog (floor.go, compact.go); records before the floor are void,
// whatever JetStream reads from its files after a crash. The record's expiry time and the caller's clock decide whether a message has expired.
//
// # Damage
//
// Records have checksums. A message whose record does not match is set aside (queue.go). A queue that lost records, or whose record in the
// catalog cannot be read, returns [ErrDamaged] until [Repair] has run. A stream is removed only if the catalog proves that it belongs to no
// queue (stream.go).
//
// Where to start: [Open], [Store], [Queue].
package state
