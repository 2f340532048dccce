package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// read returns the value of an input binding: nil if the resource does not exist.
func (h *Host) read(ctx context.Context, inv *invocation, b *binding) (any, error) {
	if b.kind == kindDurableClient {
		return h.durable.ClientData(h.durableClient(b.messages)), nil
	}
	target, err := b.resolveTarget(inv)
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
	client, err := h.blobs(b)
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

// splitPath takes the path of a blob apart. With an error, container may be there still.
func splitPath(path string) (container, name string, err error) {
	container, name, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if container == "" || name == "" {
		return container, name, fmt.Errorf("%q is not container/blob", path)
	}
	return container, name, nil
}

// download reads a blob, in a certain state if an ETag is given.
func download(ctx context.Context, client *blob.Client, etag string) ([]byte, error) {
	var o blob.DownloadStreamOptions
	if etag != "" {
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(
			azcore.ETag(etag))}}
	}
	got, err := client.DownloadStream(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	if got.ContentLength != nil && *got.ContentLength > maxBody {
		return nil, errTooLarge
	}
	return readBounded(got.Body)
}

// missing reports whether the error means that the resource does not exist.
func missing(err error) bool {
	var r *azcore.ResponseError
	return bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) ||
		errors.As(err, &r) && (r.ErrorCode == string(aztables.ResourceNotFound) ||
			r.ErrorCode == string(aztables.TableNotFound))
}

// maxEntities bounds a table input that says no "take".
const maxEntities = 100_000

// readTable returns one entity, or a list of the entities of a partition or filter.
func (h *Host) readTable(ctx context.Context, inv *invocation, b *binding, table string) (any, error) {
	service, err := h.tables(b)
	if err != nil {
		return nil, err
	}
	client := service.NewClient(table)
	// The first error stays: what follows it resolves to nothing.
	resolve := func(t *template) string {
		if t == nil || err != nil {
			return ""
		}
		var s string
		s, err = t.resolve(inv)
		return s
	}
	partition, row, filter := resolve(b.partitionKey), resolve(b.rowKey), ""
	if err == nil && b.filter != nil {
		filter, err = b.filter.resolve(inv)
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
		return inputEntity(got.JSON, got.ETag), nil
	}
	if b.partitionKey != nil {
		own := "PartitionKey eq '" + strings.ReplaceAll(partition, "'", "''") + "'"
		if filter != "" {
			// A filter that callers write asks within the partition, whatever it is.
			if err := oneCondition(filter); err != nil {
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
			entities = append(entities, inputEntity(e, ""))
		}
	}
	return entities, nil
}

// inputEntity returns an entity as an input, with its Timestamp and odata.etag, as the host's extension makes it of a
// TableEntity:
// https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/tables/Microsoft.Azure.WebJobs.Extensions.Tables/src/PocoTypeBinder.cs
func inputEntity(text []byte, etag azcore.ETag) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	plain := map[string]json.RawMessage{}
	if json.Unmarshal(plainEntity(text), &plain) != nil {
		return text
	}
	plain["Timestamp"], plain["odata.etag"] = members["Timestamp"], members["odata.etag"]
	if plain["odata.etag"] == nil { // The answer to a request for one entity has it in a header.
		plain["odata.etag"], _ = marshal(string(etag))
	}
	whole, err := marshal(plain)
	if err != nil {
		return text
	}
	return whole
}

// plainEntity returns an entity without the annotations of its transport and its Timestamp; 64-bit numbers are numbers
// again.
func plainEntity(text []byte) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	for name, value := range members {
		property, annotation := strings.CutSuffix(name, "@odata.type")
		if annotation && string(value) == `"Edm.Int64"` {
			members[property] = json.RawMessage(rawText(members[property]))
		}
		if annotation || strings.HasPrefix(name, "odata.") {
			delete(members, name)
		}
	}
	delete(members, "Timestamp")
	plain, err := marshal(members)
	if err != nil {
		return text
	}
	return plain
}
