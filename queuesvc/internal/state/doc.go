// Package state keeps queues in JetStream: what the Queue service knows, without HTTP and XML.
//
// # Where things are
//
// Each queue is a stream of its own. Its subjects are slots for messages; a slot keeps one record, the newest. A
// record has the message's body as payload and everything else in one header (record.go). The catalog, one more
// stream, lists the queues with their metadata and access policies (catalog.go).
//
// # Who decides
//
// The stream is the authority. Every change of a message (claiming it, changing it, deleting it) is one publish that
// says which record it replaces, by sequence number, and JetStream refuses it if another came first: between requests,
// and between front-ends on one NATS. A pop receipt is that sequence number, so a stale receipt cannot do anything,
// wherever it is used. The rules of what may follow what are a pure function (machine.go).
//
// The index (index.go) is a cache of the stream: which message becomes visible when, without bodies. It decides only
// what is tried first. It is filled in the background when a queue is first used, by reading the records' headers; Get
// hands out what it finds while that goes on. Where others may write to the same streams it follows them.
//
// # When a caller hears of it
//
// A change is acknowledged once JetStream has it and, on an embedded server with full durability, once it is synced
// to disk; concurrent changes share the sync (package natsd).
//
// # How space comes back
//
// A message is deleted by a record without a body, a tombstone, that stays until another message takes the slot. No
// record is ever removed singly, and JetStream's own expiry is not used: after a crash that would bring replaced
// records back (trim.go). The record's expiry time and the caller's clock decide when a message is gone.
//
// Where to start: [Open], [Store], [Queue].
package state
