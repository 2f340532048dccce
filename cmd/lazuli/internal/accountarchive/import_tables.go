package accountarchive

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
)

func (i *importer) createTable(ctx context.Context, r *Resource) error {
	if _, err := i.account.Tables.CreateTable(ctx, r.Name, nil); err != nil {
		return err
	}
	if len(r.Policies) == 0 {
		return nil
	}
	var list []*aztables.SignedIdentifier
	for _, p := range r.Policies {
		list = append(list, &aztables.SignedIdentifier{ID: &p.ID, AccessPolicy: &aztables.AccessPolicy{Start: optional(p.Start), Expiry: optional(p.Expiry), Permission: &p.Permission}})
	}
	_, err := i.account.Tables.NewClient(r.Name).SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: list})
	return err
}

const (
	// maxBatch and maxBatchBytes bound a transaction; Azure takes 100 entities and 4 MiB.
	maxBatch      = 100
	maxBatchBytes = 3 << 20
)

// batch gathers entities of one partition.
type batch struct {
	client    *aztables.Client
	partition string
	actions   []aztables.TransactionAction
	size      int
}

// tableSegment writes the entities of a segment, in place of those that have the same keys.
func (i *importer) tableSegment(ctx context.Context, r *Resource, s Segment) error {
	b := &batch{client: i.account.Tables.NewClient(r.Name)}
	err := readLines(i.dir, s, func(line []byte) error {
		i.result.Items++
		return b.add(ctx, line)
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

func (b *batch) add(ctx context.Context, line []byte) error {
	entity, partition, row, err := readEntity(line)
	if err != nil {
		return err
	}
	if partition == "" || row == "" {
		if err := b.flush(ctx); err != nil {
			return err
		}
		return upsertEmptyKey(ctx, b.client, entity)
	}
	if len(b.actions) == maxBatch || b.size+len(line) > maxBatchBytes || len(b.actions) > 0 && b.partition != partition {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	data, err := json.Marshal(entity)
	if err != nil {
		return err
	}
	b.partition, b.size = partition, b.size+len(line)
	b.actions = append(b.actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: data})
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.actions) == 0 {
		return nil
	}
	_, err := b.client.SubmitTransaction(ctx, b.actions, nil)
	b.actions, b.size = b.actions[:0], 0
	return err
}

// upsertEmptyKey writes an entity with an empty key, which the client library refuses.
func upsertEmptyKey(ctx context.Context, client *aztables.Client, entity map[string]json.RawMessage) error {
	for _, name := range []string{"PartitionKey", "RowKey"} {
		if string(entity[name]) == `""` {
			entity[name] = json.RawMessage(`"` + emptykey.Placeholder + `"`)
		}
	}
	data, err := json.Marshal(entity)
	if err != nil {
		return err
	}
	ctx, check := emptykey.With(ctx)
	if _, err := client.UpsertEntity(ctx, data, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
		return err
	}
	return check()
}

// readEntity reads a line. The client library encodes numbers again, and writes a Double without a fraction as an Int32: Doubles get their type.
func readEntity(line []byte) (entity map[string]json.RawMessage, partition, row string, err error) {
	if err := json.Unmarshal(line, &entity); err != nil {
		return nil, "", "", invalid("no entity: %w", err)
	}
	for name, to := range map[string]*string{"PartitionKey": &partition, "RowKey": &row} {
		if err := json.Unmarshal(entity[name], to); err != nil || entity[name] == nil {
			return nil, "", "", invalid("an entity without %s", name)
		}
	}
	delete(entity, "Timestamp")
	for name, v := range entity {
		if _, typed := entity[name+"@odata.type"]; !typed && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') && bytes.ContainsAny(v, ".eE") {
			entity[name+"@odata.type"] = json.RawMessage(`"Edm.Double"`)
		}
	}
	return entity, partition, row, nil
}
