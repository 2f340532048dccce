package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// noContent asks the service not to send back what was inserted.
var noContent = http.Header{"Prefer": {"return-no-content"}}

// Insert stores a new entity, and sets the value's ETag. It fails with [ErrExists] if there is one with this key.
// https://learn.microsoft.com/rest/api/storageservices/insert-entity
func (t *Table[T]) Insert(ctx context.Context, e *T) error {
	return t.write(ctx, "insert", e, nil, func(ctx context.Context, body []byte) (azcore.ETag, error) {
		r, err := t.client.AddEntity(policy.WithHTTPHeader(ctx, noContent), body, nil)
		return r.ETag, err
	})
}

// InsertOrReplace stores an entity, whatever was there before, and sets the value's ETag.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity
func (t *Table[T]) InsertOrReplace(ctx context.Context, e *T) error {
	return t.upsert(ctx, "insert or replace", e, nil, aztables.UpdateModeReplace)
}

// InsertOrMerge stores an entity; properties of one that was there before stay if the value does not have them, or if
// names are given that they are not among. It sets the value's ETag.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity
func (t *Table[T]) InsertOrMerge(ctx context.Context, e *T, properties ...string) error {
	return t.upsert(ctx, "insert or merge", e, properties, aztables.UpdateModeMerge)
}

func (t *Table[T]) upsert(ctx context.Context, op string, e *T, only []string, mode aztables.UpdateMode) error {
	return t.write(ctx, op, e, only, func(ctx context.Context, body []byte) (azcore.ETag, error) {
		r, err := t.client.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: mode})
		return r.ETag, err
	})
}

// Replace replaces an entity, properties that the type does not know included, and sets the value's ETag. It fails with
// [ErrChanged] if the entity no longer has the ETag that the value carries, and with [ErrNotFound] if the entity does
// not exist. A value without ETag replaces any entity.
// https://learn.microsoft.com/rest/api/storageservices/update-entity2
func (t *Table[T]) Replace(ctx context.Context, e *T) error {
	return t.update(ctx, "replace", e, nil, aztables.UpdateModeReplace)
}

// Merge changes the properties of an entity that the value has, or those of them that are named, and sets the value's
// ETag. Others stay: a nil pointer does not remove a property. It fails as Replace does.
// https://learn.microsoft.com/rest/api/storageservices/merge-entity
func (t *Table[T]) Merge(ctx context.Context, e *T, properties ...string) error {
	return t.update(ctx, "merge", e, properties, aztables.UpdateModeMerge)
}

func (t *Table[T]) update(ctx context.Context, op string, e *T, only []string, mode aztables.UpdateMode) error {
	return t.write(ctx, op, e, only, func(ctx context.Context, body []byte) (azcore.ETag, error) {
		r, err := t.client.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: mode, IfMatch: t.ifMatch(e)})
		return r.ETag, err
	})
}

// ifMatch is the condition of a write.
func (t *Table[T]) ifMatch(e *T) *azcore.ETag {
	etag := t.codec.getETag(reflect.ValueOf(e).Elem())
	if etag == "" {
		etag = azcore.ETagAny
	}
	return &etag
}

func (t *Table[T]) write(ctx context.Context, op string, e *T, only []string,
	send func(context.Context, []byte) (azcore.ETag, error)) error {
	if err := t.checkNames(op, only); err != nil {
		return t.wrap(op, Key{}, err)
	}
	body, k, err := t.encode(ctx, e, only)
	if err != nil {
		return t.wrap(op, k, err)
	}
	var etag azcore.ETag
	err = t.creating(ctx, func() (err error) {
		return addressed(ctx, k, body, func(ctx context.Context, body []byte) (err error) {
			etag, err = send(ctx, body)
			return err
		})
	})
	if err != nil {
		return t.wrap(op, k, err)
	}
	t.codec.setETag(reflect.ValueOf(e).Elem(), etag)
	return nil
}

// errMergeEncrypted: the properties of an entity share one content key.
var errMergeEncrypted = errors.New("encrypted properties cannot be merged into an entity: use Update or Replace")

// checkNames checks a merge, and the properties that it names.
func (t *Table[T]) checkNames(op string, names []string) error {
	if strings.HasSuffix(op, "merge") && t.encryption != nil {
		return errMergeEncrypted
	}
	for _, name := range names {
		if _, err := t.codec.lookup(name); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes an entity. It fails as Replace does; with a value that has no ETag it deletes whatever is there.
// https://learn.microsoft.com/rest/api/storageservices/delete-entity1
func (t *Table[T]) Delete(ctx context.Context, e *T) error {
	k, err := t.Key(e)
	if err == nil {
		err = t.delete(ctx, k, t.ifMatch(e))
	}
	return t.wrap("delete", k, err)
}

// DeleteKey deletes the entity with a key, whatever its state. It fails with [ErrNotFound] if the entity does not
// exist.
func (t *Table[T]) DeleteKey(ctx context.Context, k Key) error {
	return t.wrap("delete", k, t.delete(ctx, k, nil))
}

func (t *table) delete(ctx context.Context, k Key, ifMatch *azcore.ETag) error {
	ctx, partition, check := emptykey.Address(ctx, k.PartitionKey)
	_, err := t.client.DeleteEntity(ctx, partition, k.RowKey, &aztables.DeleteEntityOptions{IfMatch: ifMatch})
	return errors.Join(check(), err)
}

// addressed calls send with an entity that has the key, so that the SDK accepts an empty PartitionKey. It fails if the
// client was not built for that.
func addressed(ctx context.Context, k Key, entity []byte, send func(context.Context, []byte) error) error {
	if k.PartitionKey != "" {
		return send(ctx, entity)
	}
	ctx, partition, check := emptykey.Address(ctx, "")
	err := send(ctx, append(appendQuoted([]byte(`{"PartitionKey":`), partition),
		bytes.TrimPrefix(entity, []byte(`{"PartitionKey":""`))...))
	return errors.Join(check(), err)
}

// Get reads an entity. It fails with [ErrNotFound] if the entity does not exist.
// https://learn.microsoft.com/rest/api/storageservices/query-entities
func (t *Table[T]) Get(ctx context.Context, k Key) (T, error) {
	e, _, err := t.get(ctx, k)
	return e, t.wrap("get", k, err)
}

func (t *Table[T]) get(ctx context.Context, k Key) (e T, r *raw, err error) {
	got, err := entityio.Get(ctx, t.client, k.PartitionKey, k.RowKey)
	if err != nil {
		return e, nil, err
	}
	var rd reader
	if r, err = rd.read(got.JSON); err != nil {
		return e, nil, err
	}
	return e, r, t.decode(ctx, r, &e)
}

// payload calls the SDK and returns the body of the answer as the service sent it.
func payload(ctx context.Context, call func(context.Context) error) ([]byte, error) {
	var answer *http.Response
	if err := call(policy.WithCaptureResponse(ctx, &answer)); err != nil {
		return nil, err
	}
	body, err := runtime.Payload(answer)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return body, nil
}
