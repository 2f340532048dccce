// Package poison records why each poisoned message was moved to its poison queue.
//
// A poison queue holds the messages themselves, their bodies unchanged, as Azure Functions does it: there is no room in
// them for a reason. So the reason stands in a table of the same account, lazulipoison, under the poison queue's name
// and the message's id there:
//
//	PartitionKey  the poison queue
//	RowKey        the message's id in the poison queue
//
// A record is written after its message was put to the poison queue. It may be missing: the process died in between,
// the connection has no tables, another program moved the message. And it may be left behind by a program that knows
// nothing of it, when it deletes the message. Who reads it must do with either.
package poison

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/tables"
)

// Suffix is appended to a queue's name for the name of its poison queue, as Azure Functions does.
const Suffix = "-poison"

// Table is the table's name.
const Table = "lazulipoison"

// Record says why a message was given up.
type Record struct {
	// Queue is the poison queue and ID the message's id in it.
	Queue string `table:"PartitionKey" json:"PartitionKey"`
	ID    string `table:"RowKey" json:"RowKey"`

	// Reason is one sentence, LastError what the last attempt failed with, "" if no handler came to return one.
	Reason, LastError string
	// Stack is that of a panic.
	Stack string `json:",omitempty"`
	// Attempts is the number of times that the message was received.
	Attempts int64 `json:",string"`
	// Function is the function that gave it up, Host the app's id and Invocation the last call's.
	Function, Host, Invocation string
	// Source is the queue that the message came from, to which it can be moved back.
	Source string
	// OriginalID is the message's id in its own queue, where it was put at Inserted.
	OriginalID string
	Inserted   time.Time
	Poisoned   time.Time
	// TraceParent is the trace that the message belongs to, as W3C writes it.
	TraceParent string `json:",omitempty"`
}

// Limits of what is kept. A property of an entity holds 32 Ki characters.
const (
	maxError = 8 << 10
	maxStack = 16 << 10
)

// Write adds a record and creates the table if it is not there.
func Write(ctx context.Context, service *aztables.ServiceClient, r Record) error {
	if r.Inserted.Year() < 1601 { // before the first time that a table can hold
		r.Inserted = r.Poisoned
	}
	r.Reason, r.LastError, r.Stack = clip(r.Reason, maxError), clip(r.LastError, maxError), clip(r.Stack, maxStack)
	t, err := open(service)
	if err != nil {
		return err
	}
	return t.InsertOrReplace(ctx, &r)
}

func open(service *aztables.ServiceClient) (*tables.Table[Record], error) {
	return tables.New[Record](service, Table, tables.CreateIfMissing())
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Read returns the record of a message, or nil if nothing was recorded.
func Read(ctx context.Context, service *aztables.ServiceClient, queue, id string) (*Record, error) {
	t, err := open(service)
	if err != nil {
		return nil, err
	}
	r, err := t.Get(ctx, tables.Key{PartitionKey: queue, RowKey: id})
	if missing(err) {
		return nil, nil
	}
	return &r, err
}

// All yields the records of a poison queue.
func All(ctx context.Context, service *aztables.ServiceClient, queue string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		t, err := open(service)
		if err != nil {
			yield(nil, err)
			return
		}
		for r, err := range t.Query(tables.PartitionKey.Eq(queue)).All(ctx) {
			if missing(err) || !yield(&r, err) {
				return
			}
		}
	}
}

// Remove deletes the record of a message. It succeeds if the record does not exist.
func Remove(ctx context.Context, service *aztables.ServiceClient, queue, id string) error {
	t, err := open(service)
	if err != nil {
		return err
	}
	if err := t.DeleteKey(ctx, tables.Key{PartitionKey: queue, RowKey: id}); !missing(err) {
		return err
	}
	return nil
}

func missing(err error) bool {
	return errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound)
}
