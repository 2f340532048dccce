package bindings

import "encoding/json"

// TableChange is a change of an entity. Azure Functions has no trigger for it.
type TableChange struct {
	// Table, PartitionKey and RowKey identify the entity.
	Table, PartitionKey, RowKey string
	// Change is insert, update or delete. Changes of one entity in quick succession can be reported as the last of them.
	Change TableChangeKind
	// ETag is the entity's ETag and Entity the entity in the Table service's JSON; both are empty after a delete.
	ETag   string
	Entity json.RawMessage
	// Before is the entity before the change, if the trigger handles changes in order; empty for an insert. It is also
	// empty, with the change an update, where the log does not reach back and the whole table is read.
	Before json.RawMessage
}

// TableChangeKind is the kind of a change.
type TableChangeKind string

// The kinds of changes.
const (
	TableInsert TableChangeKind = "insert"
	TableUpdate TableChangeKind = "update"
	TableDelete TableChangeKind = "delete"
)
