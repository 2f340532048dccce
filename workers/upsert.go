package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/tables"
)

// Upsert inserts or replaces an entity in a table of the account that the function works on: ctx is
// the context of a handler. See Storage.Upsert for the entity.
func Upsert(ctx context.Context, table string, entity any) error {
	storage, ok := StorageOf(ctx)
	if !ok {
		return errors.New("workers: Upsert outside of a handler; use Storage.Upsert")
	}
	return storage.Upsert(ctx, table, entity)
}

// Upload writes a block blob in the account that the function works on, in place of an earlier one: ctx
// is the context of a handler. See Storage.Upload for the content.
func Upload(ctx context.Context, container, name string, content any) error {
	storage, ok := StorageOf(ctx)
	if !ok {
		return errors.New("workers: Upload outside of a handler; use Storage.Upload")
	}
	return storage.Upload(ctx, container, name, content)
}

// Upsert inserts or replaces an entity, and creates the table if it does not exist. The entity is JSON as the Table service has it
// (https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations) in bytes or a string, a value whose
// JSON is that, such as an aztables.EDMEntity, or a tables.Entity. Its PartitionKey must not be empty, which the SDK does not support.
func (s *Storage) Upsert(ctx context.Context, table string, entity any) error {
	if s.Tables == nil {
		return errors.New("workers: upsert: the connection string has no table endpoint")
	}
	e, err := tableEntity(entity)
	if err != nil {
		return fmt.Errorf("workers: upsert to %s: %w", table, err)
	}
	t, err := tables.New[tables.Entity](s.Tables, table, tables.CreateIfMissing())
	if err == nil {
		err = t.InsertOrReplace(ctx, &e)
	}
	if err != nil {
		return fmt.Errorf("workers: upsert: %w", err)
	}
	return nil
}

// tableEntity returns an entity that is given as such, or as JSON.
func tableEntity(v any) (tables.Entity, error) {
	switch v := v.(type) {
	case tables.Entity:
		return v, nil
	case *tables.Entity:
		if v != nil {
			return *v, nil
		}
	}
	body, err := encoded(v)
	if err != nil {
		return tables.Entity{}, err
	}
	return tables.ParseEntity(body)
}

// Upload writes a block blob, in place of an earlier one, and creates the container if it does not exist. Bytes and strings are written as they
// are, everything else as JSON.
func (s *Storage) Upload(ctx context.Context, container, name string, content any) error {
	if s.Blobs == nil {
		return errors.New("workers: upload: the connection string has no blob endpoint")
	}
	body, err := encoded(content)
	if err != nil {
		return fmt.Errorf("workers: upload %s/%s: %w", container, name, err)
	}
	put := func() error {
		_, err := s.Blobs.UploadBuffer(ctx, container, name, body, nil)
		return err
	}
	if err = put(); bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err := s.Blobs.CreateContainer(ctx, container, nil); err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("workers: upload: create the container %s: %w", container, err)
		}
		err = put()
	}
	if err != nil {
		return fmt.Errorf("workers: upload %s/%s: %w", container, name, err)
	}
	return nil
}

// encoded returns bytes and strings as they are and everything else as JSON.
func encoded(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return bytes.Clone(v), nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v)
}

func hasTableCode(err error, code aztables.TableErrorCode) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == string(code)
}
