package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/functions/internal/entity"
	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// write puts the value of an output binding where it belongs. What holds it is created if it is not there.
func (h *Host) write(ctx context.Context, inv *invocation, b *binding, value Value) error {
	// In each invocation, since names may have expressions over the trigger's data.
	target, err := b.resolveTarget(&inv.data)
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
func (h *Host) warnDecoded(log *slog.Logger, b *binding, c content) {
	if !c.decoded || utf8.Valid(c.data) {
		return
	}
	if _, warned := h.warned.LoadOrStore(b, true); !warned {
		log.Warn("the output is valid base64, and was decoded, as Azure Functions does; set dataType to binary to "+
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
		h.warnDecoded(inv.log, b, c)
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
	client, err := h.blobClient(b)
	if err != nil {
		return err
	}
	c := b.content(value)
	h.warnDecoded(inv.log, b, c)
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

// writeTable inserts entities. One that exists already, with the same properties, counts as written: an earlier attempt
// of the same invocation may have ended after it.
func (h *Host) writeTable(ctx context.Context, inv *invocation, b *binding, table string, value Value) error {
	service, err := h.tableClient(b)
	if err != nil {
		return err
	}
	client, err := tables.New[tables.Entity](service, table, tables.CreateIfMissing())
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for name, t := range map[string]*expression.Template{"PartitionKey": b.partitionKey, "RowKey": b.rowKey} {
		if t == nil {
			continue
		}
		if keys[name], err = t.Resolve(&inv.data); err != nil {
			return err
		}
	}
	// A list is several entities. A single value goes through content, which decodes it as for the other outputs.
	items, isList := jsonvalue.List(value.JSON)
	if value.JSON == nil || !isList {
		items = []json.RawMessage{b.content(value).data}
	}
	for i, item := range items {
		e, err := entity.New(item, keys)
		if err != nil {
			return fmt.Errorf("entity %d: %w", i, err)
		}
		if err := entity.Insert(ctx, client, e); err != nil {
			return fmt.Errorf("insert entity %d into the table %q: %w", i, table, err)
		}
	}
	return nil
}
