package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Rotate encrypts again, with [Encryption.Key], every entity whose content key another key has wrapped, and returns how
// many there were. It scans the table, can be interrupted and repeated, and does not lose concurrent changes. It does
// not change entities that were stored in plain text.
func (t *Table[T]) Rotate(ctx context.Context) (rotated int, err error) {
	if t.encryption == nil {
		return 0, t.wrap("rotate", Key{}, ErrNoKey)
	}
	pager := t.client.NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Select: to.Ptr(partitionKey + "," + rowKey + "," + metadata1)})
	for pager.More() {
		body, err := payload(ctx, func(ctx context.Context) error {
			_, err := pager.NextPage(ctx)
			return err
		})
		if err != nil {
			return rotated, t.wrap("rotate", Key{}, err)
		}
		var rd reader
		err = eachEntity(body, &rd, func(r *raw) error {
			if !t.isStale(r) {
				return nil
			}
			// An update that changes nothing: it decrypts, encrypts by the current key, and repeats on a conflict.
			err := t.Update(ctx, r.key, func(*T) error { return nil })
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			if err == nil {
				rotated++
			}
			return err
		})
		if err != nil {
			return rotated, fmt.Errorf("tables: rotate %s: %w", t.name, err)
		}
	}
	return rotated, nil
}

// isStale reports whether an entity is encrypted in another way than a write would now.
func (t *table) isStale(r *raw) bool {
	for _, p := range r.properties {
		if p.name == metadata1 {
			v, err := parseEnvelope(p)
			azure := err == nil && v.EncryptionAgent.Protocol == azureProtocol
			return err != nil || v.WrappedContentKey.KeyID != t.encryption.Key.KeyID() ||
				azure != (t.encryption.Mode == AzureCompatible)
		}
	}
	return false
}
