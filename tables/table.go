package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Table is a table of entities that are T: a struct, an interface that several structs satisfy (see [WithType]), or
// [Entity]. It may be used by many goroutines at once.
type Table[T any] struct {
	table
	codec codec
}

// table is the part of Table that does not depend on the entity type.
type table struct {
	client *aztables.Client
	name   string
	config
}

// config has the values that options set.
type config struct {
	create     bool
	types      []registration
	encryption *Encryption
}

type registration struct {
	name string
	typ  reflect.Type
}

// Option changes what [New] makes.
type Option func(*config)

// CreateIfMissing makes writes create the table if it is missing, and then try again. Reads of a missing table still
// fail.
func CreateIfMissing() Option { return func(c *config) { c.create = true } }

// WithType registers a struct type under a name, which is stored in the property EntityType (heterogeneous entities
// pattern). A table of an interface type registers each of its types, and reads every entity as a pointer to the one
// that EntityType names; if T is any, entities of other types are read as *Entity. A table of a struct type registers
// that one: its queries ask for the type, and reading another is [ErrType].
func WithType[E any](name string) Option {
	return func(c *config) { c.types = append(c.types, registration{name, reflect.TypeFor[E]()}) }
}

// tableName are the rules of
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names
var tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{2,62}$`)

// New returns the table of that name. It sends nothing. It fails if the name or the type T cannot be stored, and names
// the field that is wrong.
func New[T any](service *aztables.ServiceClient, name string, options ...Option) (*Table[T], error) {
	c := newConfig(options)
	if service == nil {
		return nil, errors.New("tables: the service client is nil")
	}
	if !tableName.MatchString(name) {
		return nil, fmt.Errorf("tables: %q is not a table name: 3 to 63 letters and digits that begin with a letter", name)
	}
	t := &Table[T]{table: table{service.NewClient(name), name, c}}
	var err error
	if t.codec, err = c.codec(reflect.TypeFor[T](), false); err != nil {
		return nil, err
	}
	if err := c.check(name, t.codec); err != nil {
		return nil, err
	}
	return t, nil
}

func newConfig(options []Option) (c config) {
	for _, o := range options {
		o(&c)
	}
	return c
}

// check refuses types that cannot be encrypted as the options say.
func (c config) check(name string, inner codec) error {
	if !inner.encrypts() && c.encryption == nil {
		return nil
	}
	if err := c.encryption.check(inner); err != nil {
		return fmt.Errorf("tables: table %s: %w", name, err)
	}
	return nil
}

// codec returns how values of a type are stored. keyless allows a struct without keys.
func (c config) codec(t reflect.Type, keyless bool) (codec, error) {
	if t.Kind() == reflect.Interface {
		return c.union(t)
	}
	if t == entityType {
		if len(c.types) > 0 {
			return nil, errors.New("tables: a table of Entity reads every type; WithType is for structs and interfaces")
		}
		return entityCodec{}, nil
	}
	s, err := schemaOf(t, keyless)
	if err != nil {
		return nil, err
	}
	sc := &structCodec{schema: s}
	for _, r := range c.types {
		if r.typ != t || len(c.types) > 1 {
			return nil, fmt.Errorf("tables: a table of %v cannot have the type %v: use an interface", t, r.typ)
		}
		sc.kind = r.name
		if err := sc.checkKind(); err != nil {
			return nil, err
		}
	}
	return sc, nil
}

func (c *structCodec) checkKind() error {
	if c.kind == "" {
		return fmt.Errorf("tables: the type %v is registered without a name", c.typ)
	}
	if _, taken := c.byName[typeProperty]; taken {
		return fmt.Errorf("tables: %v has a property %s, which is to hold the name of its type", c.typ, typeProperty)
	}
	return nil
}

func (c config) union(t reflect.Type) (codec, error) {
	u := &unionCodec{byName: map[string]*structCodec{}, byType: map[reflect.Type]*structCodec{},
		fallback: reflect.TypeFor[*Entity]().Implements(t)}
	if len(c.types) == 0 {
		return nil, fmt.Errorf("tables: a table of %v needs WithType for each type of its entities", t)
	}
	for _, r := range c.types {
		s, err := schemaOf(r.typ, false)
		if err != nil {
			return nil, err
		}
		if !reflect.PointerTo(r.typ).Implements(t) {
			return nil, fmt.Errorf("tables: *%v is not a %v", r.typ, t)
		}
		if u.byName[r.name] != nil || u.byType[r.typ] != nil {
			return nil, fmt.Errorf("tables: the type %v or the name %q is registered twice", r.typ, r.name)
		}
		sc := &structCodec{schema: s, kind: r.name}
		if err := sc.checkKind(); err != nil {
			return nil, err
		}
		u.byName[r.name], u.byType[r.typ] = sc, sc
	}
	return u, nil
}

// Name returns the name of the table.
func (t *Table[T]) Name() string { return t.name }

// Client returns the SDK's client for the table.
func (t *Table[T]) Client() *aztables.Client { return t.client }

// Create creates the table. One that exists already is not an error.
func (t *Table[T]) Create(ctx context.Context) error {
	return t.wrap("create", Key{}, t.createTable(ctx))
}

// Drop deletes the table with all its entities. One that is missing is not an error. On Azure its name cannot be used
// again for a while.
func (t *Table[T]) Drop(ctx context.Context) error {
	_, err := t.client.Delete(ctx, nil)
	var r *azcore.ResponseError
	if errors.As(err, &r) && r.StatusCode == http.StatusNotFound {
		err = nil
	}
	return t.wrap("delete", Key{}, err)
}

func (t *table) createTable(ctx context.Context) error {
	_, err := t.client.CreateTable(ctx, nil)
	var r *azcore.ResponseError
	if errors.As(err, &r) && r.ErrorCode == codeTableExists {
		return nil
	}
	return err
}

// creating calls write, and once more after creating the table if it was missing and may be created.
func (t *table) creating(ctx context.Context, write func() error) error {
	err := write()
	if !t.create || !is(err, ErrTableNotFound) {
		return err
	}
	if err := t.createTable(ctx); err != nil {
		return fmt.Errorf("create the missing table: %w", err)
	}
	return write()
}

func (t *table) wrap(op string, k Key, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Table: t.name, Key: k, Err: err}
}

// Key returns the key of a value.
func (t *Table[T]) Key(e *T) (Key, error) { return t.codec.key(reflect.ValueOf(e).Elem()) }

// encode makes the JSON of a value, of all its properties or of some.
func (t *Table[T]) encode(ctx context.Context, e *T, only []string) ([]byte, Key, error) {
	if e == nil {
		return nil, Key{}, errors.New("the value is nil")
	}
	v := reflect.ValueOf(e).Elem()
	k, err := t.codec.key(v)
	if err != nil {
		return nil, k, err
	}
	w, err := t.newWriter(ctx, k, only)
	if err != nil {
		return nil, k, err
	}
	if err := t.codec.encode(v, w); err != nil {
		return nil, k, err
	}
	body, err := w.done()
	return body, k, err
}

func (t *table) newWriter(ctx context.Context, k Key, only []string) (*writer, error) {
	w, err := newWriter(k)
	if err != nil {
		return nil, err
	}
	w.only = only
	if t.encryption != nil {
		w.seal = t.encryption.sealer(ctx, t.name, k)
	}
	return w, nil
}

// decode fills a zero value from an entity that was read.
func (t *Table[T]) decode(ctx context.Context, r *raw, e *T) error {
	if err := t.encryption.open(ctx, t.name, r, t.codec.selects() != nil); err != nil {
		return err
	}
	return t.codec.decode(r, reflect.ValueOf(e).Elem())
}
