package workers

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/tables"
)

// Upsert inserts or replaces an entity in a table of the account that the function works on: ctx is
// the context of a handler. See Storage.Upsert for the entity and the options.
func Upsert(ctx context.Context, table string, entity any, options ...tables.Option) error {
	storage, ok := StorageOf(ctx)
	if !ok {
		return outside("Upsert")
	}
	return storage.Upsert(ctx, table, entity, options...)
}

// Upload writes a block blob in the account that the function works on, in place of an earlier one: ctx
// is the context of a handler. See Storage.Upload for the content.
func Upload(ctx context.Context, container, name string, content any) error {
	storage, ok := StorageOf(ctx)
	if !ok {
		return outside("Upload")
	}
	return storage.Upload(ctx, container, name, content)
}

// Upsert inserts or replaces an entity, and creates the table if it does not exist. The entity is one that
// tables.CodecOf takes: a struct of package tables, a tables.Entity, a map of properties, or the Table service's JSON
// (https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations). Its keys must not
// be empty. A struct with encrypted fields needs the option tables.WithEncryption.
func (s *Storage) Upsert(ctx context.Context, table string, entity any, options ...tables.Option) error {
	if s.Tables == nil {
		return errors.New("workers: upsert: the connection string has no table endpoint")
	}
	if err := tables.Put(ctx, s.Tables, table, entity, options...); err != nil {
		return fmt.Errorf("workers: upsert: %w", err)
	}
	return nil
}

// Upload writes a block blob, in place of an earlier one, and creates the container if it does not exist. Bytes and
// strings are written as they are, everything else as JSON.
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
	// The container is created only when it is missing: asking before each upload would double the requests.
	if err = put(); bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err := s.Blobs.CreateContainer(ctx, container, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("workers: upload: create the container %s: %w", container, err)
		}
		err = put()
	}
	if err != nil {
		return fmt.Errorf("workers: upload %s/%s: %w", container, name, err)
	}
	return nil
}
