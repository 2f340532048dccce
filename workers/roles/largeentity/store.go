package largeentity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// attempts is the maximum number of attempts of an operation whose entity other clients change.
const attempts = 16

// Option changes a Store or a Sweeper.
type Option func(*engine)

// WithInlineLimit sets the size, in bytes as the Table service counts them (two for a UTF-16 unit of text), beyond
// which a text or binary property goes to a blob; 0 to 65536. Default 65536, the service's own limit.
func WithInlineLimit(n int) Option { return func(e *engine) { e.limit = n } }

// WithAge sets how old a blob or a reservation must be before the sweeper removes it, by the service's clock. It should
// exceed the longest time that a write takes: a slower one fails or starts again. Default 1 h.
func WithAge(d time.Duration) Option { return func(e *engine) { e.age = d } }

// engine is the part of a Store that does not depend on its type.
type engine struct {
	table string
	rows  rows
	blobs blobs
	limit int
	age   time.Duration
}

func newEngine(storage *workers.Storage, table, container string, options []Option) (*engine, error) {
	switch {
	case storage == nil || storage.Tables == nil:
		return nil, errors.New("largeentity: the connection string has no table endpoint")
	case storage.Blobs == nil:
		return nil, errors.New("largeentity: the connection string has no blob endpoint")
	case table == "" || container == "":
		return nil, errors.New("largeentity: the name of the table or container is missing")
	}
	e := &engine{
		table: table, rows: rows{storage.Tables.NewClient(table)}, blobs: blobs{storage.Blobs, container},
		limit: maxProperty, age: time.Hour,
	}
	// Checked after the options, so that the order in which they are given does not matter.
	for _, o := range options {
		o(e)
	}
	switch {
	case e.limit < 0 || e.limit > maxProperty:
		return nil, fmt.Errorf("largeentity: the inline limit %d is not within 0 to %d", e.limit, maxProperty)
	case e.age < 0:
		return nil, fmt.Errorf("largeentity: the age %v is negative", e.age)
	}
	return e, nil
}

// create makes table and container where they are missing.
func (e *engine) create(ctx context.Context, storage *workers.Storage) error {
	if _, err := storage.Tables.CreateTable(ctx, e.table, nil); err != nil && !hasStatus(err, http.StatusConflict) {
		return fmt.Errorf("largeentity: create the table %s: %w", e.table, err)
	}
	if _, err := storage.Blobs.CreateContainer(ctx, e.blobs.container, nil); err != nil &&
		!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return fmt.Errorf("largeentity: create the container %s: %w", e.blobs.container, err)
	}
	return nil
}

// Store keeps values of a struct type T as entities of a table, with their big properties as blobs of a container.
//
// Fields are stored as package tables stores them, with the same tags, except that nothing can be encrypted. Strings
// and []byte may have any size, and so may the JSON of a field with the option json. T needs no keys; if it has fields
// for them, Get sets them. T may be tables.Entity, for any properties.
//
// A Store has no state. It may be used by many goroutines and processes at once.
type Store[T any] struct {
	storage *workers.Storage
	engine  *engine
	codec   *tables.Codec
}

// Entity is the result of Get.
type Entity[T any] struct {
	Key
	Value T
	ETag  azcore.ETag
}

// New returns a store. Neither table nor container is created: see Create.
func New[T any](storage *workers.Storage, table, container string, options ...Option) (*Store[T], error) {
	c, err := tables.NewCodec(reflect.TypeFor[T](), table)
	if err != nil {
		return nil, fmt.Errorf("largeentity: %w", err)
	}
	if c.Type() != reflect.TypeFor[tables.Entity]() && c.Has(PointerProperty) {
		return nil, fmt.Errorf("largeentity: %v cannot have a property called %s", c.Type(), PointerProperty)
	}
	e, err := newEngine(storage, table, container, options)
	if err != nil {
		return nil, err
	}
	return &Store[T]{storage, e, c}, nil
}

// Create makes table and container where they are missing.
func (s *Store[T]) Create(ctx context.Context) error { return s.engine.create(ctx, s.storage) }

// Sweeper returns the sweeper for the store's table and container.
func (s *Store[T]) Sweeper() *Sweeper { return &Sweeper{s.storage, s.engine} }

// Insert stores a new entity. It returns ErrExists if the entity exists.
func (s *Store[T]) Insert(ctx context.Context, k Key, value T) (azcore.ETag, error) {
	return s.write(ctx, k, value, condition{absent: true})
}

// Put stores an entity and replaces an existing one.
func (s *Store[T]) Put(ctx context.Context, k Key, value T) (azcore.ETag, error) {
	return s.write(ctx, k, value, condition{})
}

// Replace replaces the entity if it has the ETag. It returns ErrChanged if the ETag differs, and ErrNotFound if the
// entity does not exist.
func (s *Store[T]) Replace(ctx context.Context, k Key, value T, etag azcore.ETag) (azcore.ETag, error) {
	return s.write(ctx, k, value, condition{etag: etag})
}

func (s *Store[T]) write(ctx context.Context, k Key, value T, c condition) (azcore.ETag, error) {
	e, err := s.codec.ToEntity(&value)
	if err != nil {
		return "", fmt.Errorf("largeentity: %w", err)
	}
	if own := (Key{e.PartitionKey, e.RowKey}); own != k && own != (Key{}) {
		return "", fmt.Errorf("largeentity: the value has the key %+v, not %+v", own, k)
	}
	if e.Properties[PointerProperty] != nil {
		return "", fmt.Errorf("largeentity: the value has a property called %s", PointerProperty)
	}
	return s.engine.write(ctx, k, propertiesOf(e), c)
}

// Get returns an entity, complete, verified and as of one point in time. It returns ErrNotFound if the entity does not
// exist.
func (s *Store[T]) Get(ctx context.Context, k Key) (*Entity[T], error) {
	r, contents, err := s.engine.read(ctx, k, s.wanted)
	if err != nil {
		return nil, err
	}
	for name, content := range contents {
		r.Properties[name] = content
		if r.pointers.Parts[name].Type == edmString {
			r.Properties[name] = string(content)
		}
	}
	e := &Entity[T]{Key: k, ETag: r.ETag}
	if err := s.codec.FromEntity(&r.Entity, &e.Value); err != nil {
		return nil, fmt.Errorf("largeentity: %w", err)
	}
	return e, nil
}

// wanted returns those parts that the type has a field for.
func (s *Store[T]) wanted(parts map[string]part) map[string]part {
	w := map[string]part{}
	for name, p := range parts {
		if s.codec.Has(name) {
			w[name] = p
		}
	}
	return w
}

// Delete removes an entity. It is not an error if the entity does not exist.
func (s *Store[T]) Delete(ctx context.Context, k Key) error {
	err := s.engine.remove(ctx, k, "")
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// DeleteIf removes the entity if it has the ETag. It returns ErrChanged if the ETag differs, and ErrNotFound if the
// entity does not exist.
func (s *Store[T]) DeleteIf(ctx context.Context, k Key, etag azcore.ETag) error {
	return s.engine.remove(ctx, k, etag)
}

// condition is the precondition of a write; the zero value always holds.
type condition struct {
	absent bool
	etag   azcore.ETag
}

func (c condition) check(r *row) error {
	there := r != nil && !r.pointers.Reserved
	switch {
	case c.absent && there:
		return ErrExists
	case c.etag != "" && !there:
		return ErrNotFound
	case c.etag != "" && r.ETag != c.etag:
		return ErrChanged
	}
	return nil
}

// errRaced means that another client changed the row in the meantime.
var errRaced = errors.New("largeentity: lost a race")

func (e *engine) write(ctx context.Context, k Key, properties []property, c condition) (azcore.ETag, error) {
	small, large, err := split(k, properties, e.limit)
	if err != nil {
		return "", err
	}
	for range attempts {
		etag, err := e.writeOnce(ctx, k, small, large, c)
		if !errors.Is(err, errRaced) {
			return etag, err
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("%w: %s/%s", ErrChanged, k.PartitionKey, k.RowKey)
}

func (e *engine) writeOnce(ctx context.Context, k Key, small, large []property, c condition) (azcore.ETag, error) {
	old, err := e.rows.get(ctx, k)
	if err != nil {
		return "", fmt.Errorf("largeentity: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	if err := c.check(old); err != nil {
		return "", err
	}
	// The commit needs an ETag from before the first blob: the sweeper changes it before it removes one of them.
	if old == nil && len(large) > 0 {
		if old, err = e.reserve(ctx, k); err != nil {
			return "", err
		}
	}
	entity := newEntity(k)
	for _, p := range small {
		entity.Properties[p.name] = p.value
	}
	fresh := pointers{Parts: map[string]part{}}
	if len(large) > 0 {
		contents := map[string][]byte{}
		for _, p := range large {
			fresh.Parts[p.name], contents[p.name] = partOf(e.table, k, p), p.content()
		}
		if err := fresh.addTo(entity); err != nil {
			return "", err
		}
		// The blobs come before the entity that refers to them, so that no reader finds an entity without its parts.
		if err := e.blobs.write(ctx, k, fresh.Parts, contents); err != nil {
			return "", err
		}
	}
	if err := fault.Point(pointBeforeEntity); err != nil {
		return "", err
	}
	etag, err := e.commit(ctx, entity, old, fresh)
	if err != nil {
		if errors.Is(err, errRaced) { // It is certain that the new blobs are not and never will be referenced.
			_ = e.blobs.remove(ctx, fresh.blobs(), pointBeforeRemove, pointAfterRemove)
		}
		return "", err
	}
	if err := fault.Point(pointAfterEntity); err != nil {
		return "", err
	}
	if old != nil {
		// The write has succeeded. The sweeper removes what cannot be removed now.
		_ = e.blobs.remove(ctx, old.pointers.blobs(), pointBeforeRemove, pointAfterRemove)
	}
	return etag, nil
}

// reserve makes a row whose ETag the commit can rely on.
func (e *engine) reserve(ctx context.Context, k Key) (*row, error) {
	if err := fault.Point(pointBeforeReserve); err != nil {
		return nil, err
	}
	reserved := pointers{Reserved: true}
	f := newEntity(k)
	if err := reserved.addTo(f); err != nil {
		return nil, err
	}
	etag, err := e.rows.insert(ctx, f)
	if hasStatus(err, http.StatusConflict) {
		return nil, errRaced
	}
	if err != nil {
		return nil, fmt.Errorf("largeentity: reserve %s/%s: %w", k.PartitionKey, k.RowKey, err)
	}
	f.ETag = etag
	return &row{Entity: f, pointers: reserved}, fault.Point(pointAfterReserve)
}

// commit writes the entity if the row has not changed. It returns errRaced if it has.
func (e *engine) commit(ctx context.Context, entity tables.Entity, old *row, fresh pointers) (azcore.ETag, error) {
	var etag azcore.ETag
	var err error
	if old == nil {
		etag, err = e.rows.insert(ctx, entity)
	} else {
		etag, err = e.rows.update(ctx, entity, old.ETag, aztables.UpdateModeReplace)
	}
	if err == nil {
		return etag, nil
	}
	if !hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound, http.StatusConflict) {
		return "", fmt.Errorf("largeentity: write the entity: %w", err)
	}
	if old != nil && len(fresh.Parts) > 0 {
		// The SDK repeats a request whose response was lost. Then the error can be that of the second request although the
		// first one succeeded.
		now, readErr := e.rows.get(ctx, old.key())
		if readErr != nil {
			return "", fmt.Errorf("largeentity: write the entity: %w", errors.Join(err, readErr))
		}
		if now != nil && now.pointers.refersTo(fresh.blobs()[0]) {
			return now.ETag, nil
		}
	}
	if hasStatus(err, http.StatusNotFound) {
		if err := e.rows.exists(ctx); err != nil { // A configuration error is not a race.
			return "", fmt.Errorf("largeentity: write the entity: %w", err)
		}
	}
	return "", errRaced
}

// read returns an entity and the contents of those of its blobs that wanted picks.
func (e *engine) read(ctx context.Context, k Key, wanted func(map[string]part) map[string]part) (*row,
	map[string][]byte, error) {
	var before azcore.ETag
	for range attempts {
		r, err := e.rows.get(ctx, k)
		if err != nil {
			return nil, nil, fmt.Errorf("largeentity: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
		}
		if r == nil || r.pointers.Reserved {
			return nil, nil, fmt.Errorf("%w: %s/%s", ErrNotFound, k.PartitionKey, k.RowKey)
		}
		contents, err := e.blobs.read(ctx, wanted(r.pointers.Parts))
		switch {
		case err == nil:
			return r, contents, nil
		case !errors.Is(err, errGone):
			return nil, nil, err
		case r.ETag == before:
			return nil, nil, fmt.Errorf("%w: a blob of %s/%s is missing", ErrDamaged, k.PartitionKey, k.RowKey)
		}
		before = r.ETag // The entity was replaced or deleted since it was read, or is damaged: the next read decides.
	}
	return nil, nil, fmt.Errorf("%w: %s/%s, while it was read", ErrChanged, k.PartitionKey, k.RowKey)
}

// remove deletes the entity, then its blobs. An empty etag matches any.
func (e *engine) remove(ctx context.Context, k Key, etag azcore.ETag) error {
	for range attempts {
		r, err := e.rows.get(ctx, k)
		if err != nil {
			return fmt.Errorf("largeentity: read %s/%s: %w", k.PartitionKey, k.RowKey, err)
		}
		if r == nil || r.pointers.Reserved {
			return fmt.Errorf("%w: %s/%s", ErrNotFound, k.PartitionKey, k.RowKey)
		}
		if etag != "" && r.ETag != etag {
			return fmt.Errorf("%w: %s/%s", ErrChanged, k.PartitionKey, k.RowKey)
		}
		if err := fault.Point(pointBeforeDelete); err != nil {
			return err
		}
		err = e.rows.delete(ctx, k, r.ETag)
		switch {
		case hasStatus(err, http.StatusPreconditionFailed):
			continue
		case err != nil && !hasStatus(err, http.StatusNotFound): // 404: another client was faster, or the response was lost
			return fmt.Errorf("largeentity: delete %s/%s: %w", k.PartitionKey, k.RowKey, err)
		}
		if err := fault.Point(pointAfterDelete); err != nil {
			return err
		}
		_ = e.blobs.remove(ctx, r.pointers.blobs(), pointBeforeRemove, pointAfterRemove) // The sweeper removes what remains.
		return nil
	}
	return fmt.Errorf("%w: %s/%s", ErrChanged, k.PartitionKey, k.RowKey)
}
