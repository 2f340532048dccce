package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// The moments before and after each effect of the role. The message's deletion is the runtime's, and has points there.
var (
	pointBeforeCopy   = fault.Declare("archive/before-copy")
	pointAfterCopy    = fault.Declare("archive/after-copy")
	pointBeforeDelete = fault.Declare("archive/before-delete")
	pointAfterDelete  = fault.Declare("archive/after-delete")
)

// Points returns the role's fault points in the order in which a message passes them, those of its runtime included.
func Points() []string {
	return []string{
		string(pointBeforeCopy), string(pointAfterCopy), string(pointBeforeDelete), string(pointAfterDelete),
		"workers/before-delete-message", "workers/after-delete-message",
	}
}

// ErrChanged is the error of an attempt whose entity changed after the copy. The next attempt copies it again.
var ErrChanged = errors.New("archive: the entity changed while it was being archived")

// Key names an entity. Its JSON, an object with both members, is the body of the role's messages. Either key may be the
// empty string.
type Key struct {
	PartitionKey string
	RowKey       string
}

// UnmarshalJSON implements json.Unmarshaler. A missing member is an error: an empty key is an entity's name, too.
func (k *Key) UnmarshalJSON(text []byte) error {
	var members struct{ PartitionKey, RowKey *string }
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if members.PartitionKey == nil || members.RowKey == nil {
		return fmt.Errorf(`want {"PartitionKey": "...", "RowKey": "..."}, not %.200s`, text)
	}
	*k = Key{*members.PartitionKey, *members.RowKey}
	return nil
}

// Entity is an entity on its way to a target.
type Entity struct {
	Key
	// JSON is the entity in the Table service's own format: keys, properties and their types, without the service's
	// annotations and Timestamp. It can be stored in another table as it is.
	JSON []byte

	etag azcore.ETag
}

// The reasons for which an entity is not moved. Nothing was copied or deleted, and the message goes to the poison queue
// at once.
var (
	// ErrLarge means that the entity has properties in blobs (package largeentity), and the role was made without
	// WithLargeEntities.
	ErrLarge = errors.New("archive: the entity has properties in blobs: the role needs their container")
	// ErrEncrypted means that the entity has encrypted properties, which are bound to its table, and the role was made
	// without WithEncryption.
	ErrEncrypted = errors.New("archive: the entity has encrypted properties, which could not be read in another table: " +
		"the role needs their key")
)

// Role moves entities from one table to a target. It has no state; one Role may serve many messages at once.
type Role struct {
	current    *aztables.Client
	name       string
	target     Target
	encryption *tables.Encryption
	large      *largeentity.Store[tables.Entity]
}

// Option changes a Role.
type Option func(*Role, *workers.Storage) error

// WithEncryption lets the role move entities with encrypted properties to another table: it decrypts them, and encrypts
// them for that table.
func WithEncryption(e tables.Encryption) Option {
	return func(r *Role, _ *workers.Storage) error {
		r.encryption = &e
		return nil
	}
}

// WithLargeEntities lets the role move entities that package largeentity has stored with a container: their blobs are
// moved too. A container or folder gets them as one document; a table needs [LargeTable] as its target.
func WithLargeEntities(container string) Option {
	return func(r *Role, storage *workers.Storage) (err error) {
		if _, small := r.target.(tableTarget); small {
			return errors.New("archive: large entities need LargeTable as their target, not Table")
		}
		r.large, err = largeentity.New[tables.Entity](storage, r.name, container)
		return err
	}
}

// New returns a role that moves entities out of the table current of an account. Neither table nor target is created.
func New(storage *workers.Storage, current string, target Target, options ...Option) (*Role, error) {
	if storage.Tables == nil {
		return nil, errors.New("archive: the connection string has no table endpoint")
	}
	r := &Role{current: storage.Tables.NewClient(current), name: current, target: target}
	for _, o := range options {
		if err := o(r, storage); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Register makes the role the handler of a queue whose messages are Keys in JSON.
func (r *Role) Register(app *workers.App, name string, options ...workers.QueueOption) *workers.Function {
	return Register(app, name, r, func(k Key) (Key, error) { return k, nil }, options...)
}

// Register makes the role the handler of a queue with messages of the caller's type. key returns the entity that a
// message names. If key fails, the message moves to the poison queue.
func Register[T any](app *workers.App, name string, r *Role, key func(T) (Key, error),
	options ...workers.QueueOption) *workers.Function {
	return workers.Queue(app, name, func(ctx context.Context, m *workers.Message[T]) error {
		k, err := key(m.Body)
		if err != nil {
			return workers.Permanent(err)
		}
		return r.Archive(ctx, k)
	}, options...)
}

// Archive moves one entity. It may be called again, at any time and by several callers at once, after any outcome; an
// entity that is not in Current is not an error.
func (r *Role) Archive(ctx context.Context, k Key) error {
	entity, err := r.read(ctx, k)
	if err != nil || entity == nil {
		return err
	}
	if err := fault.Point(pointBeforeCopy); err != nil {
		return err
	}
	if err := r.target.Put(ctx, *entity); err != nil {
		return fmt.Errorf("archive: copy %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	if err := fault.Point(pointAfterCopy); err != nil {
		return err
	}
	if err := fault.Point(pointBeforeDelete); err != nil {
		return err
	}
	if err := r.remove(ctx, k, entity.etag); err != nil {
		return err
	}
	return fault.Point(pointAfterDelete)
}

// read returns nil without an error if the entity does not exist.
func (r *Role) read(ctx context.Context, k Key) (*Entity, error) {
	e, err := r.stored(ctx, k)
	switch {
	case hasCode(err, aztables.ResourceNotFound):
		// When one entity is read, Azure returns the same error for a missing entity and a missing table. A missing table is
		// a configuration error, and must not empty the queue.
		err = r.currentExists(ctx)
	case errors.Is(err, largeentity.ErrNotFound): // A reservation.
		return nil, nil
	case err == nil:
		from := tables.Place{Table: r.name, Key: tables.Key(k)}
		to := from
		if t, ok := r.target.(interface{ tableName() string }); ok {
			to.Table = t.tableName()
		}
		if e.JSON, err = tables.Move(ctx, e.JSON, from, to, r.encryption); err == nil {
			return e, nil
		}
	}
	if errors.Is(err, tables.ErrBound) {
		err = workers.Permanent(fmt.Errorf("%w: %w", ErrEncrypted, err))
	}
	if err != nil {
		return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	return nil, nil
}

// stored returns the entity as it is stored, with what is in blobs.
func (r *Role) stored(ctx context.Context, k Key) (*Entity, error) {
	got, err := entityio.Get(ctx, r.current, k.PartitionKey, k.RowKey)
	if err != nil {
		return nil, err
	}
	large, reserved, err := largeentity.IsLarge(got.JSON)
	switch {
	case err != nil:
		return nil, err
	case reserved:
		return nil, largeentity.ErrNotFound
	case !large:
		return &Entity{Key: k, JSON: got.JSON, etag: got.ETag}, nil
	case r.large == nil:
		return nil, workers.Permanent(ErrLarge)
	}
	e, err := r.large.Get(ctx, largeentity.Key(k))
	if err != nil {
		return nil, err
	}
	e.Value.PartitionKey, e.Value.RowKey = k.PartitionKey, k.RowKey
	body, err := e.Value.MarshalJSON()
	return &Entity{Key: k, JSON: body, etag: e.ETag}, err
}

// currentExists returns an error if the source table does not exist. A query reports that; the read of one entity does
// not.
func (r *Role) currentExists(ctx context.Context) error {
	_, err := r.current.NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1), Select: to.Ptr("PartitionKey")}).NextPage(ctx)
	return err
}

// remove deletes the entity, with its blobs, if it is still the one that was copied.
func (r *Role) remove(ctx context.Context, k Key, etag azcore.ETag) error {
	var err error
	if r.large != nil {
		err = r.large.DeleteIf(ctx, largeentity.Key(k), etag)
	} else {
		addressed, partitionKey, _ := emptykey.Address(ctx, k.PartitionKey) // The read has checked the client.
		_, err = r.current.DeleteEntity(addressed, partitionKey, k.RowKey, &aztables.DeleteEntityOptions{IfMatch: &etag})
	}
	switch {
	case err == nil, hasCode(err, aztables.ResourceNotFound), errors.Is(err, largeentity.ErrNotFound):
		return nil
	case hasCode(err, aztables.UpdateConditionNotSatisfied), errors.Is(err, largeentity.ErrChanged):
		return fmt.Errorf("%w: %s/%s", ErrChanged, k.PartitionKey, k.RowKey)
	}
	return fmt.Errorf("archive: delete %s/%s: %w", k.PartitionKey, k.RowKey, err)
}

func hasCode(err error, code aztables.TableErrorCode) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == string(code)
}
