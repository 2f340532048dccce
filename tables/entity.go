package tables

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/google/uuid"
)

// Entity is an entity whose properties are not known at compile time: New[Entity] makes a table of them.
type Entity struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	// Timestamp is the time at which the service last changed the entity.
	Timestamp time.Time
	// Properties are the values by name. What is read has the types string, bool, int32, int64, float64, time.Time,
	// uuid.UUID and []byte; what is written may have any type that a struct's field may have. Properties that are nil are
	// not stored.
	Properties map[string]any
}

// ErrNoProperty means that an entity lacks a property.
var ErrNoProperty = errors.New("the entity has no such property")

// Value returns a property as a T. It fails with [ErrNoProperty] if the entity lacks it, and if it has another type; an
// int32 is also an int64, and a whole float64.
func Value[T string | bool | int32 | int64 | float64 | time.Time | uuid.UUID | []byte](e *Entity, name string) (T,
	error) {
	var zero T
	v, ok := e.Properties[name]
	if !ok || v == nil {
		return zero, fmt.Errorf("%w: %s", ErrNoProperty, name)
	}
	if t, ok := v.(T); ok {
		return t, nil
	}
	if n, ok := v.(int32); ok {
		switch p := any(&zero).(type) {
		case *int64:
			*p = int64(n)
			return zero, nil
		case *float64:
			*p = float64(n)
			return zero, nil
		}
	}
	return zero, fmt.Errorf("the property %s is a %T, not a %T", name, v, zero)
}

var entityType = reflect.TypeFor[Entity]()

// entityCodec stores an Entity.
type entityCodec struct{}

func (entityCodec) key(v reflect.Value) (Key, error) {
	e := v.Addr().Interface().(*Entity)
	return Key{e.PartitionKey, e.RowKey}, nil
}

func (entityCodec) getETag(v reflect.Value) azcore.ETag { return v.Addr().Interface().(*Entity).ETag }

func (entityCodec) setETag(v reflect.Value, etag azcore.ETag) {
	v.Addr().Interface().(*Entity).ETag = etag
}

func (entityCodec) encode(v reflect.Value, w *writer) error {
	all := v.Addr().Interface().(*Entity).Properties
	if len(all) > maxProperties {
		return fmt.Errorf("%d properties; an entity has at most %d", len(all), maxProperties)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil || !w.wants(name) {
			continue
		}
		// Versions before 2009-04-14 took dashes: such entities can be copied.
		if !validPropertyName(strings.ReplaceAll(name, "-", "_")) || w.seal != nil &&
			strings.HasPrefix(name, metadataPrefix) || name == partitionKey || name == rowKey || name == timestamp {
			return fmt.Errorf("%q cannot be a property's name", name)
		}
		value := reflect.ValueOf(all[name])
		c, err := codecOf(value.Type())
		if err == nil && sdkTypes[value.Type()] != "" {
			err = fmt.Errorf("use %s in place of the SDK's %v", sdkTypes[value.Type()], value.Type())
		}
		if err == nil && (c.absent == nil || !c.absent(value)) {
			err = w.property(name, c.edm, w.seal != nil && slices.Contains(w.seal.encryption.Properties, name), value, c.append)
		}
		if err != nil {
			return fmt.Errorf("property %s: %w", name, err)
		}
	}
	return nil
}

// goTypes are the Go types of values that are read into an Entity.
var goTypes = map[edm]reflect.Type{
	edmString: reflect.TypeFor[string](), edmBoolean: reflect.TypeFor[bool](), edmInt32: reflect.TypeFor[int32](),
	edmInt64:  reflect.TypeFor[int64](),
	edmDouble: reflect.TypeFor[float64](), edmDateTime: timeType, edmGUID: uuidType, edmBinary: reflect.TypeFor[[]byte](),
}

func (entityCodec) decode(r *raw, v reflect.Value) error {
	e := v.Addr().Interface().(*Entity)
	*e = Entity{PartitionKey: r.key.PartitionKey, RowKey: r.key.RowKey, ETag: r.etag, Timestamp: r.timestamp,
		Properties: make(map[string]any, len(r.properties))}
	for _, p := range r.properties {
		t := goTypes[p.edm]
		c, err := codecOf(t)
		if err != nil {
			return err
		}
		value := reflect.New(t).Elem()
		if err := c.set(value, p.value, p.edm); err != nil {
			return fmt.Errorf("property %s: %w", p.name, err)
		}
		e.Properties[p.name] = value.Interface()
	}
	return nil
}

func (entityCodec) lookup(string) (edm, error) { return "", nil }
func (entityCodec) selects() []string          { return nil }
func (entityCodec) always() Expr               { return Expr{} }
func (entityCodec) encrypts() bool             { return false }
