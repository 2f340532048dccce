// Package bindings has the types that triggers pass to handlers. Their names and fields are those of the package
// bindings in the Azure Functions worker for Go, so that a handler compiles with either.
package bindings

import "encoding/json"

// QueueMessage is one message of a storage queue.
type QueueMessage struct {
	// Body is the decoded message: JSON or other bytes.
	Body json.RawMessage
	// Id is the message's ID. (Spelt as in Azure Functions.)
	Id string
	// PopReceipt is the pop receipt of the delivery. The runtime renews the lease, which changes the receipt; this one is
	// stale after the first renewal.
	PopReceipt string
	// DequeueCount is the number of deliveries, including this one.
	DequeueCount int64
	// InsertionTime, ExpirationTime and NextVisibleTime are in RFC 3339, UTC.
	InsertionTime, ExpirationTime, NextVisibleTime string
}
