package record

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// entity is a table's row as JSON.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
type entity map[string]any

func newEntity(partitionKey, rowKey string) entity {
	return entity{"PartitionKey": partitionKey, "RowKey": rowKey}
}

const EdmTime = "2006-01-02T15:04:05.0000000Z"

func (e entity) setTime(name string, t time.Time) {
	e[name], e[name+"@odata.type"] = t.UTC().Format(EdmTime), "Edm.DateTime"
}

func (e entity) setBytes(name string, b []byte) {
	e[name], e[name+"@odata.type"] = base64.StdEncoding.EncodeToString(b), "Edm.Binary"
}

// setText sets a property unless the text is empty.
func (e entity) setText(name, text string) {
	if text != "" {
		e[name] = text
	}
}

func (e entity) encode() []byte {
	text, err := json.Marshal(map[string]any(e))
	if err != nil {
		panic("durable: an entity of plain values cannot be written: " + err.Error())
	}
	return text
}

// HTTPStatus returns the HTTP status and the service's code of a refused request; 0 for other errors.
func HTTPStatus(err error) (int, string) {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode, r.ErrorCode
	}
	return 0, ""
}

func IsNotFound(err error) bool { s, _ := HTTPStatus(err); return s == 404 }

// IsConflict reports whether the row was not as the request demanded. A batch answers 202; its error's text has the
// code.
func IsConflict(err error) bool {
	s, code := HTTPStatus(err)
	if s == 412 || s == 409 || s == 404 {
		return true
	}
	if s != 202 {
		return false
	}
	text := code + err.Error()
	for _, c := range []string{"UpdateConditionNotSatisfied", "EntityAlreadyExists", "ResourceNotFound",
		"ConditionNotMet"} {
		if strings.Contains(text, c) {
			return true
		}
	}
	return false
}

// plain reports whether a text can be a string property as it is: control characters may not survive the way through
// JSON and Atom.
func plain(text string) bool {
	for _, r := range text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF || r == 0xFFFD {
			return false
		}
	}
	return true
}

// readRow reads a row of an instance or entity into a structure, and returns its ETag: none if it does not exist.
func readRow(ctx context.Context, table *aztables.Client, name, id, key string, row any) (azcore.ETag, error) {
	return readRowAt(ctx, table, name, id, PartitionKey(id), key, row)
}

// readRowAt is readRow with the partition key, of a hub that has others for its instances.
func readRowAt(ctx context.Context, table *aztables.Client, name, id, partition, key string, row any) (azcore.ETag,
	error) {
	got, err := table.GetEntity(ctx, partition, key, nil)
	if IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("durable: read %q: %w", id, err)
	}
	if err := json.Unmarshal(got.Value, row); err != nil {
		return "", Corrupt(id, nil, fmt.Errorf("the row %s in %s: %w", key, name, err))
	}
	return got.ETag, nil
}

// position is the content of a continuation.
type position struct {
	Partition string `json:"p"`
	Row       string `json:"r"`
}

// PositionOf reads a continuation.
func PositionOf(text string) (p position, err error) {
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%w: the continuation: %w", ErrBadRequest, err)
	}
	return p, nil
}

func (p position) Text() string {
	if p.Partition == "" {
		return ""
	}
	text, _ := json.Marshal(p) // Strings.
	return string(text)
}

// ListPage returns a page of the rows that match a filter, and the position of the next page.
func ListPage(ctx context.Context, table *aztables.Client, filter string, top int, after position) (rows [][]byte,
	next position, err error) {
	o := &aztables.ListEntitiesOptions{Top: to.Ptr(int32(top))}
	if filter != "" {
		o.Filter = &filter
	}
	if after.Partition != "" {
		o.NextPartitionKey, o.NextRowKey = &after.Partition, &after.Row
	}
	got, err := table.NewListEntitiesPager(o).NextPage(ctx)
	if err != nil {
		return nil, next, err
	}
	if got.NextPartitionKey != nil {
		next.Partition = *got.NextPartitionKey
	}
	if got.NextRowKey != nil {
		next.Row = *got.NextRowKey
	}
	return got.Entities, next, nil
}
