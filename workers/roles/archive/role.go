package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/workers"
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

// Key names an entity. Its JSON, an object with both members, is the body of the role's messages. Either key may be the empty string.
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

// Role moves entities from one table to a target. It has no state; one Role may serve many messages at once.
type Role struct {
	current *aztables.Client
	target  Target
}

// New returns a role that moves entities out of the table current of an account. Neither table nor target is created.
func New(storage *workers.Storage, current string, target Target) (*Role, error) {
	if storage.Tables == nil {
		return nil, errors.New("archive: the connection string has no table endpoint")
	}
	return &Role{current: storage.Tables.NewClient(current), target: target}, nil
}

// Register makes the role the handler of a queue whose messages are Keys in JSON.
func (r *Role) Register(app *workers.App, name string, options ...workers.QueueOption) *workers.Function {
	return Register(app, name, r, func(k Key) (Key, error) { return k, nil }, options...)
}

// Register makes the role the handler of a queue with messages of the caller's type. key returns the entity that a message names. If key
// fails, the message moves to the poison queue.
func Register[T any](app *workers.App, name string, r *Role, key func(T) (Key, error), options ...workers.QueueOption) *workers.Function {
	return workers.Queue(app, name, func(ctx context.Context, m *workers.Message[T]) error {
		k, err := key(m.Body)
		if err != nil {
			return workers.Permanent(err)
		}
		return r.Archive(ctx, k)
	}, options...)
}

// Archive moves one entity. It may be called again, at any time and by several callers at once, after any outcome; an entity
// that is not in Current is not an error.
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

// read returns nil without an error if the entity is not there.
func (r *Role) read(ctx context.Context, k Key) (*Entity, error) {
	// The SDK's decoded entity has converted numbers to float64 and lost their types; the raw response has not.
	var raw *http.Response
	addressed, partitionKey, check := emptykey.Address(ctx, k.PartitionKey)
	got, err := r.current.GetEntity(policy.WithCaptureResponse(addressed, &raw), partitionKey, k.RowKey, nil)
	if err := check(); err != nil {
		return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	if hasCode(err, aztables.ResourceNotFound) {
		// When one entity is read, Azure returns the same error for a missing entity and a missing table. A missing table is a
		// configuration error, and must not empty the queue.
		if err := r.currentExists(ctx); err != nil {
			return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	body, err := runtime.Payload(raw)
	if err != nil {
		return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	stored, err := forStorage(body)
	if err != nil {
		return nil, fmt.Errorf("archive: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	return &Entity{Key: k, JSON: stored, etag: got.ETag}, nil
}

// currentExists returns an error if the source table does not exist. A query reports that; the read of one entity does not.
func (r *Role) currentExists(ctx context.Context) error {
	_, err := r.current.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1), Select: to.Ptr("PartitionKey")}).NextPage(ctx)
	return err
}

// remove deletes the entity if it is still the one that was copied.
func (r *Role) remove(ctx context.Context, k Key, etag azcore.ETag) error {
	addressed, partitionKey, _ := emptykey.Address(ctx, k.PartitionKey) // The read has checked the client.
	_, err := r.current.DeleteEntity(addressed, partitionKey, k.RowKey, &aztables.DeleteEntityOptions{IfMatch: &etag})
	switch {
	case err == nil, hasCode(err, aztables.ResourceNotFound):
		return nil
	case hasCode(err, aztables.UpdateConditionNotSatisfied):
		return fmt.Errorf("%w: %s/%s", ErrChanged, k.PartitionKey, k.RowKey)
	}
	return fmt.Errorf("archive: delete %s/%s: %w", k.PartitionKey, k.RowKey, err)
}

func hasCode(err error, code aztables.TableErrorCode) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == string(code)
}
