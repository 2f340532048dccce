// Package changes records the changes of queues and tables for event subscriptions. A handler makes a change inside
// [Recorder.Record], which logs the event before the change and settles it afterwards, so that a process that is killed
// at any moment loses no event.
//
// It does not store or deliver events: package events of the server implements [Log] over the event log of the Blob
// service. Blobs do not use this package, because their events are part of their transactions.
package changes
