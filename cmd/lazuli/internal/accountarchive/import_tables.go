package accountarchive

import (
	"context"
	"encoding/json"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/tables"
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
		list = append(list, &aztables.SignedIdentifier{ID: &p.ID,
			AccessPolicy: &aztables.AccessPolicy{Start: optional(p.Start), Expiry: optional(p.Expiry),
				Permission: &p.Permission}})
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
	table     *tables.Table[tables.Entity]
	tx        *tables.Changes[tables.Entity]
	partition string
	size      int
}

// tableSegment writes the entities of a segment, in place of those that have the same keys.
func (i *importer) tableSegment(ctx context.Context, r *Resource, s Segment) error {
	table, err := tables.New[tables.Entity](i.account.Tables, r.Name)
	if err != nil {
		return invalid("%w", err)
	}
	b := &batch{table: table, tx: table.Begin()}
	err = readLines(i.dir, s, func(line []byte) error {
		i.result.Items++
		return b.add(ctx, line)
	})
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

func (b *batch) add(ctx context.Context, line []byte) error {
	e, err := readEntity(line)
	if err != nil {
		return err
	}
	if e.PartitionKey == "" {
		if err := b.flush(ctx); err != nil {
			return err
		}
		return b.table.InsertOrReplace(ctx, &e)
	}
	if b.tx.Len() == maxBatch || b.size+len(line) > maxBatchBytes || b.tx.Len() > 0 && b.partition != e.PartitionKey {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.partition, b.size = e.PartitionKey, b.size+len(line)
	b.tx.InsertOrReplace(&e)
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	tx := b.tx
	b.tx, b.size = b.table.Begin(), 0
	if tx.Len() == 0 {
		return nil
	}
	return tx.Submit(ctx)
}

// readEntity reads a line.
func readEntity(line []byte) (e tables.Entity, err error) {
	var keys struct{ PartitionKey, RowKey *string }
	if err := json.Unmarshal(line, &keys); err != nil {
		return e, invalid("no entity: %w", err)
	}
	if keys.PartitionKey == nil || keys.RowKey == nil {
		return e, invalid("an entity without PartitionKey or RowKey")
	}
	if err := e.UnmarshalJSON(line); err != nil {
		return e, invalid("%w", err)
	}
	return e, nil
}
