// Package queue keeps queues in a store whose log is a JetStream stream. It implements the Queue service without HTTP
// and XML.
//
// # Layout
//
// A queue is records in queues.db, a file of package store; keys.go has their keys and values. The key of a message in
// the bucket "visible" has the time at which the message becomes visible, so that the bucket is the order in which
// messages are handed out: those that may be handed out come first, and hidden ones after them. A message's text is
// written once, and never again when the message is handed out.
//
// # Transactions
//
// Each operation is one transaction. Get Messages seeks the first visible keys, moves them to the time at which the
// messages become visible again, and returns the messages. What happens to a message is decided by a pure function
// (machine.go). Concurrent operations share a commit: one message in the stream LAZULI_LOG_queues, stored by a majority
// of its servers and synced, and applied to queues.db by each process that follows the stream. See packages store and
// replog.
//
// Clear Messages and Delete Queue take the queue's id away, and with it everything that has the id in its key. A
// background goroutine removes that (clean.go), as it removes expired messages.
//
// # Pop receipts
//
// A pop receipt is the time of the message's key in "visible", with a keyed hash over the message's ID, that time and
// the number of changes (receipt.go). A message that was handed out again, or changed, has another key or another
// number.
//
// # Memory
//
// No part of a queue is kept in memory, besides the store's own. A hint for each queue that is in use says where its
// first message may be (hint.go).
//
// Where to start: [Open], [Store], [Queue].
package queue
