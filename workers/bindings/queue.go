// Package bindings holds the values that triggers hand to handlers. Their names and fields are those of the package of
// the same name in the Azure Functions worker for Go, so that a handler's signature compiles against either.
package bindings

import "encoding/json"

// QueueMessage is one message of a storage queue.
type QueueMessage struct {
	// Body is the message after decoding: JSON or any other bytes, as the sender wrote them.
	Body json.RawMessage
	// Id names the message for as long as it lives. (Spelt as in Azure Functions.)
	Id string
	// PopReceipt is the receipt under which the message was received. The runtime renews the lease and thereby the
	// receipt; this one is stale from the first renewal on.
	PopReceipt string
	// DequeueCount says how often the message was received, this time included.
	DequeueCount int64
	// InsertionTime, ExpirationTime and NextVisibleTime are in RFC 3339, UTC.
	InsertionTime, ExpirationTime, NextVisibleTime string
}
