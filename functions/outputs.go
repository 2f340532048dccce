package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// write puts the value of an output binding where it belongs. What holds it is created if it is not there.
func (h *Host) write(ctx context.Context, inv *invocation, b *binding, value Value) error {
	// In each invocation, since names may have expressions over the trigger's data.
	target, err := b.resolveTarget(inv)
	if err != nil {
		return err
	}
	switch b.kind {
	case kindQueue:
		return h.writeQueue(ctx, inv, b, target, value)
	case kindBlob:
		return h.writeBlob(ctx, inv, b, target, value)
	}
	return h.writeTable(ctx, inv, b, target, value)
}

// warnDecoded warns, once for each binding, that a text was decoded as base64 and the result is not text.
func (h *Host) warnDecoded(inv *invocation, b *binding, c content) {
	if !c.decoded || utf8.Valid(c.data) {
		return
	}
	if _, warned := h.warned.LoadOrStore(b, true); !warned {
		inv.log.Warn("the output is valid base64, and was decoded, as Azure Functions does; set dataType to binary to "+
			"have text written as it is", "output", b.name)
	}
}

func (h *Host) writeQueue(ctx context.Context, inv *invocation, b *binding, queue string, value Value) error {
	storage, err := h.open(b.connection)
	if err != nil {
		return err
	}
	if storage.Queues == nil {
		return errNoEndpoint(b, "queue")
	}
	client := storage.Queues.NewQueueClient(queue)
	for _, c := range b.contents(value) {
		h.warnDecoded(inv, b, c)
		err := queuetool.Put(ctx, client, c.data,
			queuetool.PutOptions{Plain: h.project.host.queues.encoding != workers.Base64, Create: true})
		if err != nil {
			return fmt.Errorf("put to the queue %q: %w", queue, err)
		}
	}
	// A trigger of this app on the queue need not wait for its next poll.
	h.app.Wake(queue)
	return nil
}

func (h *Host) writeBlob(ctx context.Context, inv *invocation, b *binding, path string, value Value) error {
	container, name, err := splitPath(path)
	if err != nil {
		return err
	}
	client, err := h.blobs(b)
	if err != nil {
		return err
	}
	c := b.content(value)
	h.warnDecoded(inv, b, c)
	upload := func() error {
		_, err := client.UploadBuffer(ctx, container, name, c.data, nil)
		return err
	}
	// The container is created only when it is missing: a check before each write would cost a request.
	err = upload()
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err := client.CreateContainer(ctx, container, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("create the container %q: %w", container, err)
		}
		err = upload()
	}
	if err != nil {
		return fmt.Errorf("write the blob %q: %w", path, err)
	}
	return nil
}

func (h *Host) blobs(b *binding) (*azblob.Client, error) {
	storage, err := h.open(b.connection)
	if err != nil {
		return nil, err
	}
	if storage.Blobs == nil {
		return nil, errNoEndpoint(b, "blob")
	}
	return storage.Blobs, nil
}

func (h *Host) tables(b *binding) (*aztables.ServiceClient, error) {
	storage, err := h.open(b.connection)
	if err != nil {
		return nil, err
	}
	if storage.Tables == nil {
		return nil, errNoEndpoint(b, "table")
	}
	return storage.Tables, nil
}

func errNoEndpoint(b *binding, service string) error {
	return fmt.Errorf("the connection %q has no %s endpoint", b.connection, service)
}

// writeTable inserts entities. One that exists already, with the same properties, counts as written: an earlier attempt
// of the same invocation may have ended after it.
func (h *Host) writeTable(ctx context.Context, inv *invocation, b *binding, table string, value Value) error {
	service, err := h.tables(b)
	if err != nil {
		return err
	}
	client, err := tables.New[tables.Entity](service, table, tables.CreateIfMissing())
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for name, t := range map[string]*template{"PartitionKey": b.partitionKey, "RowKey": b.rowKey} {
		if t == nil {
			continue
		}
		if keys[name], err = t.resolve(inv); err != nil {
			return err
		}
	}
	// A list is several entities. A single value goes through content, which decodes it as for the other outputs.
	items, isList := asList(value.JSON)
	if value.JSON == nil || !isList {
		items = []json.RawMessage{b.content(value).data}
	}
	for i, item := range items {
		e, err := newEntity(item, keys)
		if err != nil {
			return fmt.Errorf("entity %d: %w", i, err)
		}
		if err := insert(ctx, client, e); err != nil {
			return fmt.Errorf("insert entity %d into the table %q: %w", i, table, err)
		}
	}
	return nil
}

// newEntity makes an entity of a JSON object. Keys that it does not have are the binding's. Types are those that the
// Functions host gives: whole numbers are Int64, other ones Double, and text that is a time is a DateTime. Objects and
// lists are stored as text. Properties with an annotation ("N@odata.type") have its type.
func newEntity(raw json.RawMessage, keys map[string]string) (*tables.Entity, error) {
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
			if annotation || present(value) == nil {
				continue
			}
			key := &e.PartitionKey
			if strings.EqualFold(name, "RowKey") {
				key = &e.RowKey
			}
			*key = rawText(value)
		case strings.EqualFold(property, "Timestamp"), strings.EqualFold(name, "ETag"), strings.HasPrefix(name, "odata."),
			present(value) == nil:
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
	body, err := marshal(members)
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
		if strings.EqualFold(n, name) && present(v) != nil {
			return true
		}
	}
	return false
}

// untyped returns a value without annotation as a property.
func untyped(value json.RawMessage) any {
	switch c := value[0]; {
	case c == '{' || c == '[':
		return plainText(value)
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
	return rawText(value)
}

// dateTime recognises what .NET's JSON reader takes for a time: text like 2020-01-02T03:04:05, with or without a
// fraction and an offset.
func dateTime(value json.RawMessage) (time.Time, bool) {
	text := rawText(value)
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

// insert inserts an entity, and creates the table if it does not exist.
func insert(ctx context.Context, table *tables.Table[tables.Entity], e *tables.Entity) error {
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
