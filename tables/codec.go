package tables

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// codec converts the values of a table. It is given addressable values.
type codec interface {
	key(v reflect.Value) (Key, error)
	getETag(v reflect.Value) azcore.ETag
	setETag(v reflect.Value, etag azcore.ETag)
	encode(v reflect.Value, w *writer) error
	// decode fills a zero value.
	decode(e *raw, v reflect.Value) error
	// lookup returns the type of a property in a condition, "" for any, or an error if it cannot be compared.
	lookup(name string) (edm, error)
	// selects returns what a projection to the type asks for; nil is all.
	selects() []string
	// always is a condition that every query has.
	always() Expr
	encrypts() bool
}

// structCodec stores a struct.
type structCodec struct {
	*schema
	kind       string // the name of the type if the struct is one of several types
	projection bool
}

// typeProperty has the name of an entity's type in tables of several.
const typeProperty = "EntityType"

func (c *structCodec) key(v reflect.Value) (Key, error) { return c.schema.key(v), nil }

func (c *structCodec) encode(v reflect.Value, w *writer) error {
	if c.kind != "" {
		w.name(typeProperty)
		w.b = appendQuoted(w.b, c.kind)
	}
	return c.schema.encode(v, w)
}

func (c *structCodec) decode(e *raw, v reflect.Value) error {
	if c.kind != "" && !c.projection {
		if got := kindOf(e); got != c.kind {
			return fmt.Errorf("%w: %s is %q, want %q", ErrType, typeProperty, got, c.kind)
		}
	}
	if err := c.schema.decode(e, v); err != nil || c.projection {
		return err
	}
	return c.checkKey(e, v)
}

func (c *structCodec) lookup(name string) (edm, error) {
	if c.kind != "" && name == typeProperty {
		return edmString, nil
	}
	return c.schema.lookup(name)
}

func (c *structCodec) selects() []string {
	if !c.projection {
		return nil
	}
	return c.names()
}

func (c *structCodec) always() Expr {
	if c.kind == "" {
		return Expr{}
	}
	return Field(typeProperty).Eq(c.kind)
}

func (c *structCodec) encrypts() bool { return c.encrypting }

// ErrType means that an entity is of another type than the table's, or of one that was not registered with [WithType].
var ErrType = errors.New("the entity is of another type")

// kindOf returns the name of an entity's type; it is empty if it has none.
func kindOf(e *raw) string {
	for _, p := range e.properties {
		if p.name == typeProperty && p.edm == edmString {
			name, _ := unquote(p.value)
			return name
		}
	}
	return ""
}

// unionCodec stores several struct types, distinguished by a property. Values are interfaces that hold pointers to the
// structs.
type unionCodec struct {
	byName   map[string]*structCodec
	byType   map[reflect.Type]*structCodec
	fallback bool // unknown types are read as *Entity
}

// inner returns the struct behind an interface, and how it is stored.
func (c *unionCodec) inner(v reflect.Value) (codec, reflect.Value, error) {
	if v.IsNil() {
		return nil, v, errors.New("the value is nil")
	}
	p := v.Elem()
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, v, fmt.Errorf("the value is a %v, not a pointer to a registered type", p.Type())
	}
	if e := p.Elem(); e.Type() == entityType {
		return entityCodec{}, e, nil
	}
	s, ok := c.byType[p.Type().Elem()]
	if !ok {
		return nil, v, fmt.Errorf("%w: %v is not registered", ErrType, p.Type().Elem())
	}
	return s, p.Elem(), nil
}

func (c *unionCodec) key(v reflect.Value) (Key, error) {
	s, e, err := c.inner(v)
	if err != nil {
		return Key{}, err
	}
	return s.key(e)
}

func (c *unionCodec) getETag(v reflect.Value) azcore.ETag {
	s, e, err := c.inner(v)
	if err != nil {
		return ""
	}
	return s.getETag(e)
}

func (c *unionCodec) setETag(v reflect.Value, etag azcore.ETag) {
	if s, e, err := c.inner(v); err == nil {
		s.setETag(e, etag)
	}
}

func (c *unionCodec) encode(v reflect.Value, w *writer) error {
	s, e, err := c.inner(v)
	if err != nil {
		return err
	}
	return s.encode(e, w)
}

func (c *unionCodec) decode(e *raw, v reflect.Value) error {
	name := kindOf(e)
	s, ok := c.byName[name]
	if !ok {
		if !c.fallback {
			return fmt.Errorf("%w: %s is %q, which is not registered", ErrType, typeProperty, name)
		}
		p := &Entity{}
		v.Set(reflect.ValueOf(p))
		return entityCodec{}.decode(e, reflect.ValueOf(p).Elem())
	}
	p := reflect.New(s.typ)
	if err := s.decode(e, p.Elem()); err != nil {
		return err
	}
	v.Set(p)
	return nil
}

// lookup finds a property in any of the types; where they disagree on its type, the constant's type decides.
func (c *unionCodec) lookup(name string) (edm, error) {
	if name == typeProperty {
		return edmString, nil
	}
	var found edm
	var known bool
	for _, s := range c.byType {
		i, ok := s.byName[name]
		if !ok {
			continue
		}
		t := s.properties[i].codec.edm
		if known && t != found {
			return "", nil
		}
		if s.properties[i].encrypt {
			return "", fmt.Errorf("the property %q is encrypted: the service cannot compare it", name)
		}
		found, known = t, true
	}
	if !known && !c.fallback {
		return "", fmt.Errorf("no registered type has a property %q", name)
	}
	return found, nil
}

func (c *unionCodec) selects() []string { return nil }
func (c *unionCodec) always() Expr      { return Expr{} }

func (c *unionCodec) encrypts() bool {
	for _, s := range c.byType {
		if s.encrypting {
			return true
		}
	}
	return false
}
