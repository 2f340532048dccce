// Package entity converts between the entities of a table and the JSON that functions read and write, by the rules of
// the Functions host's extension for tables, and inserts what a function has returned.
package entity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/tables"
)

// New makes an entity of a JSON object that a function has returned. Keys that it does not have are the binding's.
// Types are those that the Functions host gives: whole numbers are Int64, other ones Double, and text that is a time is
// a DateTime. Objects and lists are stored as text. Properties with an annotation ("N@odata.type") have its type.
func New(raw json.RawMessage, keys map[string]string) (*tables.Entity, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, errors.New("it is not a JSON object")
	}
	e := &tables.Entity{Properties: map[string]any{}}
	annotated := map[string]json.RawMessage{}
	for name, value := range members {
		property, annotation := strings.CutSuffix(name, "@odata.type")
		switch {
		case strings.EqualFold(property, "PartitionKey"), strings.EqualFold(property, "RowKey"):
			if annotation || jsonvalue.Present(value) == nil {
				continue
			}
			key := &e.PartitionKey
			if strings.EqualFold(name, "RowKey") {
				key = &e.RowKey
			}
			*key = jsonvalue.Text(value)
		case strings.EqualFold(property, "Timestamp"), strings.EqualFold(name, "ETag"), strings.HasPrefix(name, "odata."),
			jsonvalue.Present(value) == nil:
		case annotation:
			// Both together, so that the decoder of the service's JSON sees a property with its type.
			annotated[name], annotated[property] = value, members[property]
		// A property with an annotation is left to addAnnotated.
		case members[name+"@odata.type"] == nil:
			e.Properties[name] = untyped(value)
		}
	}
	if err := addAnnotated(e, annotated); err != nil {
		return nil, err
	}
	hasPartition, hasRow := hasMember(members, "PartitionKey"), hasMember(members, "RowKey")
	if p, ok := keys["PartitionKey"]; ok && !hasPartition {
		e.PartitionKey, hasPartition = p, true
	}
	if r, ok := keys["RowKey"]; ok && !hasRow {
		e.RowKey, hasRow = r, true
	}
	if !hasPartition || !hasRow {
		return nil, errors.New("it lacks PartitionKey or RowKey, and so does the binding")
	}
	return e, nil
}

// addAnnotated adds the properties that have their types beside them, as in the service's JSON.
func addAnnotated(e *tables.Entity, members map[string]json.RawMessage) error {
	if len(members) == 0 {
		return nil
	}
	body, err := jsonvalue.Marshal(members)
	if err != nil {
		return err
	}
	var typed tables.Entity
	if err := typed.UnmarshalJSON(body); err != nil {
		return err
	}
	maps.Copy(e.Properties, typed.Properties)
	return nil
}

func hasMember(members map[string]json.RawMessage, name string) bool {
	for n, v := range members {
		if strings.EqualFold(n, name) && jsonvalue.Present(v) != nil {
			return true
		}
	}
	return false
}

// untyped returns a value without annotation as a property.
func untyped(value json.RawMessage) any {
	switch c := value[0]; {
	case c == '{' || c == '[':
		return jsonvalue.Plain(value)
	case c >= '0' && c <= '9' || c == '-':
		// First as a whole number, which keeps all digits of an Int64; a float would lose those beyond 2^53.
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n
		}
		x, _ := strconv.ParseFloat(string(value), 64) // Beyond the range it is infinite.
		return x
	case c == 't' || c == 'f':
		return c == 't'
	}
	if t, ok := dateTime(value); ok {
		return t
	}
	return jsonvalue.Text(value)
}

// dateTime recognises what .NET's JSON reader takes for a time: text like 2020-01-02T03:04:05, with or without a
// fraction and an offset.
func dateTime(value json.RawMessage) (time.Time, bool) {
	text := jsonvalue.Text(value)
	if len(text) < len("2006-01-02T15:04:05") {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(100 * time.Nanosecond), true
		}
	}
	return time.Time{}, false
}

// Insert inserts an entity, and creates the table if it does not exist.
func Insert(ctx context.Context, table *tables.Table[tables.Entity], e *tables.Entity) error {
	err := table.Insert(ctx, e)
	if !errors.Is(err, tables.ErrExists) {
		return err
	}
	stored, getErr := table.Get(ctx, tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey})
	if getErr != nil || !sameProperties(stored.Properties, e.Properties) {
		return err
	}
	return nil
}

// sameProperties compares properties as stored; the service keeps whole Doubles and all other values as they are.
func sameProperties(a, b map[string]any) bool {
	x, err := json.Marshal(tables.Entity{Properties: a})
	if err != nil {
		return false
	}
	y, err := json.Marshal(tables.Entity{Properties: b})
	return err == nil && bytes.Equal(x, y)
}

// Input returns an entity as an input, with its Timestamp and odata.etag, as the host's extension makes it of a
// TableEntity:
// https://github.com/Azure/azure-sdk-for-net/tree/main/sdk/tables/Microsoft.Azure.WebJobs.Extensions.Tables/src
// (PocoTypeBinder.cs)
func Input(text []byte, etag azcore.ETag) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	plain := map[string]json.RawMessage{}
	if json.Unmarshal(Plain(text), &plain) != nil {
		return text
	}
	plain["Timestamp"], plain["odata.etag"] = members["Timestamp"], members["odata.etag"]
	if plain["odata.etag"] == nil { // The answer to a request for one entity has it in a header.
		plain["odata.etag"], _ = jsonvalue.Marshal(string(etag))
	}
	whole, err := jsonvalue.Marshal(plain)
	if err != nil {
		return text
	}
	return whole
}

// Plain returns an entity without the annotations of its transport and its Timestamp; 64-bit numbers are numbers
// again.
func Plain(text []byte) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	for name, value := range members {
		property, annotation := strings.CutSuffix(name, "@odata.type")
		if annotation && string(value) == `"Edm.Int64"` {
			members[property] = json.RawMessage(jsonvalue.Text(members[property]))
		}
		if annotation || strings.HasPrefix(name, "odata.") {
			delete(members, name)
		}
	}
	delete(members, "Timestamp")
	plain, err := jsonvalue.Marshal(members)
	if err != nil {
		return text
	}
	return plain
}
