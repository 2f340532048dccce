package bindings

import "encoding/json"

// TableChange is one change of an entity. Azure Functions has no such trigger; the type stands here beside its kin.
type TableChange struct {
	// Table, PartitionKey and RowKey say which entity.
	Table, PartitionKey, RowKey string
	// Change is what happened: insert, update or delete. Changes that follow each other quickly may be told as the last of them.
	Change TableChangeKind
	// ETag is the entity's, and Entity the entity in JSON, as the Table service has it; both are empty after a delete.
	ETag   string
	Entity json.RawMessage
	// Before is the entity before the change, if the trigger handles changes in order; empty for an insert. It is also empty, with the change an
	// update, where the log does not reach back and the whole table is read.
	Before json.RawMessage
}

// TableChangeKind is what happened to an entity.
type TableChangeKind string

// The kinds of changes.
const (
	TableInsert TableChangeKind = "insert"
	TableUpdate TableChangeKind = "update"
	TableDelete TableChangeKind = "delete"
)
