package customhandler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/workers"
)

// write puts the value of an output binding where it belongs. What holds it is created if it is not there.
func (h *Host) write(ctx context.Context, inv *invocation, b *binding, value json.RawMessage) error {
	target, err := b.target.resolve(inv)
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
		inv.log.Warn("the output is valid base64, and was decoded, as Azure Functions does; set dataType to binary to have text written as it is", "output", b.name)
	}
}

func (h *Host) writeQueue(ctx context.Context, inv *invocation, b *binding, queue string, value json.RawMessage) error {
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
		err := queuetool.Put(ctx, client, c.data, queuetool.PutOptions{Plain: h.project.host.queues.encoding != workers.Base64, Create: true})
		if err != nil {
			return fmt.Errorf("put to the queue %q: %w", queue, err)
		}
	}
	h.app.Wake(queue)
	return nil
}

func (h *Host) writeBlob(ctx context.Context, inv *invocation, b *binding, path string, value json.RawMessage) error {
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
	err = upload()
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err := client.CreateContainer(ctx, container, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
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

func (h *Host) tables(b *binding, table string) (*aztables.Client, error) {
	storage, err := h.open(b.connection)
	if err != nil {
		return nil, err
	}
	if storage.Tables == nil {
		return nil, errNoEndpoint(b, "table")
	}
	return storage.Tables.NewClient(table), nil
}

func errNoEndpoint(b *binding, service string) error {
	return fmt.Errorf("the connection %q has no %s endpoint", b.connection, service)
}

// writeTable inserts entities. One that is there already, with the same properties, counts as written: an earlier attempt of
// the same invocation may have been cut off after it.
func (h *Host) writeTable(ctx context.Context, inv *invocation, b *binding, table string, value json.RawMessage) error {
	client, err := h.tables(b, table)
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
	items, isList := asList(value)
	if !isList {
		items = []json.RawMessage{json.RawMessage(rawText(value))}
	}
	for i, item := range items {
		e, err := newEntity(item, keys)
		if err != nil {
			return fmt.Errorf("entity %d: %w", i, err)
		}
		if err := e.insert(ctx, client); err != nil {
			return fmt.Errorf("insert entity %d into the table %q: %w", i, table, err)
		}
	}
	return nil
}

// entity is one entity on its way to a table.
type entity struct {
	partition, row string
	members        map[string]any
}

// newEntity makes an entity of a JSON object. Keys that it does not have are the binding's. Types are those that the Functions
// host gives: whole numbers are Int64, other ones Double, and text that is a time is a DateTime. Objects and lists are stored as text.
func newEntity(raw json.RawMessage, keys map[string]string) (*entity, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, errors.New("it is not a JSON object")
	}
	e := &entity{members: map[string]any{}}
	for name, value := range members {
		switch {
		case strings.EqualFold(name, "PartitionKey"), strings.EqualFold(name, "RowKey"):
			if present(value) == nil {
				continue
			}
			keys := &e.partition
			if strings.EqualFold(name, "RowKey") {
				keys = &e.row
			}
			*keys = rawText(value)
		case strings.EqualFold(name, "Timestamp"), strings.EqualFold(name, "ETag"), present(value) == nil:
		default:
			e.add(name, value, members)
		}
	}
	hasPartition, hasRow := hasMember(members, "PartitionKey"), hasMember(members, "RowKey")
	if p, ok := keys["PartitionKey"]; ok && !hasPartition {
		e.partition, hasPartition = p, true
	}
	if r, ok := keys["RowKey"]; ok && !hasRow {
		e.row, hasRow = r, true
	}
	if !hasPartition || !hasRow {
		return nil, errors.New("it lacks PartitionKey or RowKey, and so does the binding")
	}
	e.members["PartitionKey"], e.members["RowKey"] = e.partition, e.row
	return e, nil
}

func hasMember(members map[string]json.RawMessage, name string) bool {
	for n, v := range members {
		if strings.EqualFold(n, name) && present(v) != nil {
			return true
		}
	}
	return false
}

func (e *entity) add(name string, value json.RawMessage, members map[string]json.RawMessage) {
	if _, annotated := members[name+"@odata.type"]; annotated {
		e.members[name] = value
		return
	}
	typed := func(value any, kind string) { e.members[name], e.members[name+"@odata.type"] = value, kind }
	switch c := value[0]; {
	case c == '{' || c == '[':
		e.members[name] = plainText(value)
	case c >= '0' && c <= '9' || c == '-':
		if _, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			typed(string(value), "Edm.Int64")
		} else {
			typed(value, "Edm.Double")
		}
	default:
		if t, ok := dateTime(value); ok {
			typed(t, "Edm.DateTime")
			return
		}
		e.members[name] = value
	}
}

// dateTime recognises what .NET's JSON reader takes for a time: text like 2020-01-02T03:04:05, with or without a fraction and an offset.
func dateTime(value json.RawMessage) (string, bool) {
	text := rawText(value)
	if value[0] != '"' || len(text) < len("2006-01-02T15:04:05") {
		return "", false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return dotNetTime(t), true
		}
	}
	return "", false
}

// insert adds the entity, and the table if it is not there.
func (e *entity) insert(ctx context.Context, client *aztables.Client) error {
	text, err := marshal(e.members)
	if err != nil {
		return err
	}
	_, err = client.AddEntity(ctx, text, nil)
	if code(err) == string(aztables.TableNotFound) || code(err) == string(aztables.ResourceNotFound) {
		if _, err := client.CreateTable(ctx, nil); err != nil && code(err) != string(aztables.TableAlreadyExists) {
			return fmt.Errorf("create the table: %w", err)
		}
		_, err = client.AddEntity(ctx, text, nil)
	}
	if code(err) == string(aztables.EntityAlreadyExists) {
		got, getErr := client.GetEntity(ctx, e.partition, e.row, nil)
		if getErr == nil && sameEntity(got.Value, text) {
			return nil
		}
	}
	return err
}

func code(err error) string {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.ErrorCode
	}
	return ""
}

// sameEntity reports whether the stored entity equals the one to write.
func sameEntity(stored, wanted []byte) bool {
	a, b := comparable(stored), comparable(wanted)
	return a != nil && bytes.Equal(a, b)
}

// comparable returns an entity's JSON in a fixed order, without the properties that the service adds.
func comparable(text []byte) []byte {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&members) != nil {
		return nil
	}
	for name, value := range members {
		if strings.HasPrefix(name, "odata.") || name == "Timestamp" || name == "Timestamp@odata.type" {
			delete(members, name)
		} else if n, ok := value.(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				members[name] = f
			}
		}
		if strings.HasSuffix(name, "@odata.type") && (value == "Edm.Double" || value == "Edm.String" || value == "Edm.Boolean" || value == "Edm.Int32") {
			delete(members, name) // Types that JSON implies may be omitted.
		}
	}
	same, err := marshal(members)
	if err != nil {
		return nil
	}
	return same
}
