package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/functions/internal/entity"
	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// read returns the value of an input binding: nil if the resource does not exist.
func (h *Host) read(ctx context.Context, inv *invocation, b *binding) (any, error) {
	if b.kind == kindDurableClient {
		return h.durable.ClientData(h.durableClient(b.messages)), nil
	}
	target, err := b.resolveTarget(&inv.data)
	if err != nil {
		return nil, err
	}
	if b.kind == kindTable {
		return h.readTable(ctx, inv, b, target)
	}
	container, name, err := splitPath(target)
	if b.client && container != "" { // Without a name it is that of the container.
		return &BlobReference{b.connection, container, name}, nil
	}
	if err != nil {
		return nil, err
	}
	client, err := h.blobClient(b)
	if err != nil {
		return nil, err
	}
	text, err := download(ctx, client.ServiceClient().NewContainerClient(container).NewBlobClient(name), "")
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case b.binary:
		return text, nil
	}
	return string(text), nil
}

// maxEntities bounds a table input that says no "take".
const maxEntities = 100_000

// readTable returns one entity, or a list of the entities of a partition or filter.
func (h *Host) readTable(ctx context.Context, inv *invocation, b *binding, table string) (any, error) {
	service, err := h.tableClient(b)
	if err != nil {
		return nil, err
	}
	client := service.NewClient(table)
	// The first error stays: what follows it resolves to nothing.
	resolve := func(t *expression.Template) string {
		if t == nil || err != nil {
			return ""
		}
		var s string
		s, err = t.Resolve(&inv.data)
		return s
	}
	partition, row, filter := resolve(b.partitionKey), resolve(b.rowKey), ""
	if err == nil && b.filter != nil {
		filter, err = b.filter.Resolve(&inv.data)
	}
	if err != nil {
		return nil, err
	}
	if b.rowKey != nil {
		got, err := entityio.Get(ctx, client, partition, row)
		if missing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return entity.Input(got.JSON, got.ETag), nil
	}
	if b.partitionKey != nil {
		own := "PartitionKey eq '" + strings.ReplaceAll(partition, "'", "''") + "'"
		if filter != "" {
			// A filter that callers write asks within the partition, whatever it is.
			if err := expression.OneCondition(filter); err != nil {
				return nil, err
			}
			own += " and (" + filter + ")"
		}
		filter = own
	}
	o := &aztables.ListEntitiesOptions{}
	if filter != "" {
		o.Filter = &filter
	}
	entities := []json.RawMessage{}
	for pager := client.NewListEntitiesPager(o); pager.More(); {
		page, err := entityio.NextPage(ctx, pager)
		if missing(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entities {
			if b.take > 0 && len(entities) == b.take {
				return entities, nil
			}
			if len(entities) == maxEntities {
				return nil, fmt.Errorf("more than %d entities; set \"take\" or a narrower \"filter\"", maxEntities)
			}
			entities = append(entities, entity.Input(e, ""))
		}
	}
	return entities, nil
}
