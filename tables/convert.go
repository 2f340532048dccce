package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Codec converts values of one Go type to entities in the service's JSON and back, as a [Table] of the type does: for
// code that gets entities from other sources than a Table, such as a trigger. It sends no requests, and may be used by
// many goroutines at once.
type Codec struct {
	table
	typ   reflect.Type
	codec codec
	keyed bool
}

// NewCodec returns the codec of a type, for a table: encryption binds the table's name. The options are those of [New].
// The type may lack the keys, for values that are only read. The error names the field that cannot be stored; it is
// [ErrNoKey] if a field is to be encrypted and no option has the key.
func NewCodec(t reflect.Type, table string, options ...Option) (*Codec, error) {
	c := newConfig(options)
	inner, err := c.codec(t, true)
	if err != nil {
		return nil, err
	}
	if err := c.check(table, inner); err != nil {
		return nil, err
	}
	codec := &Codec{typ: t, codec: inner, keyed: true}
	codec.name, codec.config = table, c
	if s, ok := inner.(*structCodec); ok {
		codec.keyed = s.keyed()
	}
	return codec, nil
}

// CodecOf returns the codec for a value whose type is known only at run time, and the value as the codec takes it. The
// value is a struct that New accepts or a pointer to one; an [Entity]; a map of properties, PartitionKey and RowKey
// among them; or the service's JSON, in bytes, in a string or as a value that encodes itself so, such as an
// aztables.EDMEntity or a struct with fields of the SDK's types.
func CodecOf(v any, table string, options ...Option) (*Codec, any, error) {
	v, err := dynamic(v)
	if err != nil {
		return nil, nil, err
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c, err := NewCodec(t, table, options...)
	return c, v, err
}

// Put stores an entity as [Table.InsertOrReplace] does, and creates the table if it is missing. The entity is one that
// [CodecOf] takes.
func Put(ctx context.Context, service *aztables.ServiceClient, name string, entity any, options ...Option) error {
	c, entity, err := CodecOf(entity, name, options...)
	if err != nil {
		return &Error{Op: "put", Table: name, Err: err}
	}
	t := table{service.NewClient(name), name, config{create: true}}
	body, k, err := c.Marshal(ctx, entity)
	if err == nil {
		err = t.creating(ctx, func() error {
			return addressed(ctx, k, body, func(ctx context.Context, body []byte) error {
				_, err := t.client.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
				return err
			})
		})
	}
	return t.wrap("put", k, err)
}

// Type returns the type of the codec's values.
func (c *Codec) Type() reflect.Type { return c.typ }

// Has reports whether the type has a place for a property. The types Entity and any have one for each.
func (c *Codec) Has(property string) bool {
	_, err := c.codec.lookup(property)
	s, isStruct := c.codec.(*structCodec)
	return err == nil || isStruct && s.has(property)
}

// Marshal returns the service's JSON of a value of the codec's type, or of a pointer to one, and its key.
func (c *Codec) Marshal(ctx context.Context, v any) ([]byte, Key, error) {
	if !c.keyed {
		return nil, Key{}, fmt.Errorf("tables: %v has no PartitionKey and RowKey, and can only be read", c.typ)
	}
	value, err := c.value(v)
	if err != nil {
		return nil, Key{}, err
	}
	k, err := c.codec.key(value)
	if err != nil {
		return nil, k, err
	}
	w, err := c.newWriter(ctx, k, nil)
	if err == nil {
		err = c.codec.encode(value, w)
	}
	if err != nil {
		return nil, k, err
	}
	body, err := w.done()
	return body, k, err
}

// Unmarshal decodes the service's JSON of an entity into a value of the codec's type, to which v points. It decrypts,
// and sets the fields ETag and Timestamp if the JSON has them.
func (c *Codec) Unmarshal(ctx context.Context, entity []byte, v any) error {
	value, err := c.value(v)
	if err != nil {
		return err
	}
	r, err := readEntity(entity)
	if err != nil {
		return err
	}
	if err := c.encryption.open(ctx, c.name, r, false); err != nil {
		return err
	}
	value.SetZero()
	return c.codec.decode(r, value)
}

// ToEntity returns the properties as which a value is stored. Nothing is encrypted. A type without keys has an entity
// without keys.
func (c *Codec) ToEntity(v any) (e Entity, err error) {
	value, err := c.value(v)
	if err != nil {
		return e, err
	}
	k, err := c.codec.key(value)
	if err != nil {
		return e, err
	}
	w, err := newWriter(k)
	if err == nil {
		w.plain = true
		err = c.codec.encode(value, w)
	}
	if err != nil {
		return e, err
	}
	body, err := w.done()
	if err == nil {
		err = e.UnmarshalJSON(body)
	}
	e.ETag = c.codec.getETag(value)
	return e, err
}

// FromEntity sets a value, to which v points, to what the entity has, which is not encrypted.
func (c *Codec) FromEntity(e *Entity, v any) error {
	value, err := c.value(v)
	if err != nil {
		return err
	}
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	r, err := readEntity(body)
	if err != nil {
		return err
	}
	r.etag, r.timestamp = e.ETag, e.Timestamp
	for i := range r.properties {
		r.properties[i].decrypted = true
	}
	value.SetZero()
	return c.codec.decode(r, value)
}

// value returns the addressable value of the codec's type that v is or points to.
func (c *Codec) value(v any) (reflect.Value, error) {
	value := reflect.ValueOf(v)
	switch {
	case !value.IsValid():
	case value.Type() == reflect.PointerTo(c.typ):
		if !value.IsNil() {
			return value.Elem(), nil
		}
	case value.Type().AssignableTo(c.typ):
		addressable := reflect.New(c.typ).Elem()
		addressable.Set(value)
		return addressable, nil
	}
	return value, fmt.Errorf("tables: the value is a %T, not a %v", v, c.typ)
}

// MarshalJSON returns the entity in the service's JSON, every type intact, without ETag and Timestamp.
func (e Entity) MarshalJSON() ([]byte, error) {
	w, err := newWriter(Key{e.PartitionKey, e.RowKey})
	if err == nil {
		err = entityCodec{}.encode(reflect.ValueOf(&e).Elem(), w)
	}
	if err != nil {
		return nil, fmt.Errorf("tables: encode an entity: %w", err)
	}
	return w.done()
}

// UnmarshalJSON parses the service's JSON: an entity of an answer, or of the changes of a table.
func (e *Entity) UnmarshalJSON(b []byte) error {
	r, err := readEntity(b)
	if err == nil {
		err = entityCodec{}.decode(r, reflect.ValueOf(e).Elem())
	}
	if err != nil {
		return fmt.Errorf("tables: parse an entity: %w", err)
	}
	return nil
}

func readEntity(b []byte) (*raw, error) {
	if !json.Valid(b) {
		return nil, errJSON
	}
	return new(reader).read(b)
}

// dynamic returns a value that CodecOf takes as a struct or pointer to one; maps and JSON as *Entity.
func dynamic(v any) (any, error) {
	switch v := v.(type) {
	case []byte:
		return parsed(v)
	case string:
		return parsed([]byte(v))
	case json.RawMessage:
		return parsed(v)
	case aztables.EDMEntity, *aztables.EDMEntity:
		return encodedJSON(v)
	}
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return nil, errors.New("tables: the entity is nil")
	case t.Kind() == reflect.Struct && !ofSDK(t):
		return v, nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		return fromMap(reflect.Indirect(reflect.ValueOf(v)))
	}
	return encodedJSON(v)
}

// ofSDK reports whether a struct has fields of the SDK's types, which encode themselves as JSON.
func ofSDK(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i).Type; sdkTypes[f] != "" || f == reflect.TypeFor[aztables.Entity]() {
			return true
		}
	}
	return false
}

func encodedJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parsed(b)
}

func parsed(b []byte) (any, error) {
	e := &Entity{}
	return e, e.UnmarshalJSON(bytes.TrimSpace(b))
}

// fromMap makes an entity of a map. One with annotations is the service's JSON.
func fromMap(m reflect.Value) (any, error) {
	e := &Entity{Properties: map[string]any{}}
	for i := m.MapRange(); i.Next(); {
		name, value := i.Key().String(), i.Value().Interface()
		text, isText := value.(string)
		switch {
		case strings.HasSuffix(name, typeSuffix), strings.HasPrefix(name, "odata."):
			return encodedJSON(m.Interface())
		case (name == partitionKey || name == rowKey) && !isText:
			return nil, fmt.Errorf("tables: the %s is a %T, not a string", name, value)
		case name == partitionKey:
			e.PartitionKey = text
		case name == rowKey:
			e.RowKey = text
		case name == timestamp:
		case name == "ETag":
			if etag, ok := value.(azcore.ETag); ok {
				e.ETag = etag
				break
			}
			e.Properties[name] = value
		default:
			e.Properties[name] = value
		}
	}
	return e, nil
}
