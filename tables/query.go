package tables

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Query is a query of a table. Its methods return changed copies, so that a Query can be kept and varied.
type Query[T any] struct {
	table *Table[T]
	where Expr
	// selected are the properties to ask for; nil is what the type needs.
	selected  []string
	pageSize  int
	limit     int
	allowScan bool
}

// Query returns the query for the entities that satisfy all conditions.
func (t *Table[T]) Query(conditions ...Expr) *Query[T] {
	return &Query[T]{table: t, where: And(append([]Expr{t.codec.always()}, conditions...)...), limit: math.MaxInt}
}

// maxPageSize is the number of entities that the service answers at once.
const maxPageSize = 1000

// PageSize sets how many entities a page has at most, 1 to 1000.
func (q Query[T]) PageSize(n int) *Query[T] { q.pageSize = n; return &q }

// Limit ends All after n entities.
func (q Query[T]) Limit(n int) *Query[T] { q.limit = n; return &q }

// AllowScan permits the query to scan; see [Plan.Scan].
func (q Query[T]) AllowScan() *Query[T] { q.allowScan = true; return &q }

// Select asks for some properties only; other fields of the values stay zero. Such values must not be stored again by
// Replace. See also [Project]. The keys are always asked for.
func (q Query[T]) Select(properties ...string) *Query[T] {
	q.selected = append([]string{partitionKey, rowKey}, properties...)
	return &q
}

// Project returns the query with values of a struct type that has fewer fields than T: only its properties are asked
// for. It needs no keys.
func Project[P, T any](q *Query[T]) (*Query[P], error) {
	s, err := schemaOf(reflect.TypeFor[P](), true)
	if err != nil {
		return nil, err
	}
	t := &Table[P]{table: q.table.table, codec: &structCodec{schema: s, projection: true}}
	for _, p := range s.properties {
		// lookup refuses encrypted properties, which cannot be compared; they can be read.
		if _, err := q.table.codec.lookup(p.name); err != nil && !p.encrypt {
			return nil, fmt.Errorf("tables: field %s of %v: %w", p.field, s.typ, err)
		}
	}
	return &Query[P]{table: t, where: q.where, pageSize: q.pageSize, limit: q.limit, allowScan: q.allowScan},
		q.check(q.table.codec)
}

// check reports a condition that does not fit the table's type.
func (q *Query[T]) check(c codec) error {
	if q.where.op == "" && q.where.err == nil {
		return nil
	}
	_, err := q.where.appendTo(nil, c.lookup, 0)
	return err
}

// Plan returns the cost class of the query without sending it. It returns an error if a condition or property does not
// fit the type.
func (q *Query[T]) Plan() (Plan, error) {
	p, err := q.plan()
	return p, q.table.wrap("plan", Key{}, err)
}

func (q *Query[T]) plan() (Plan, error) {
	r := reachOf(q.where)
	p := Plan{Cost: r.cost(), Filtered: r.filtered}
	if q.where.op != "" || q.where.err != nil {
		lookup := q.table.codec.lookup
		if s, ok := q.table.codec.(*structCodec); ok && s.projection {
			lookup = func(string) (edm, error) { return "", nil } // Project has checked it.
		}
		filter, err := q.where.appendTo(nil, lookup, 0)
		if err != nil {
			return p, err
		}
		p.Filter = string(filter)
	}
	selected := q.selected
	if selected == nil {
		selected = q.table.codec.selects()
	} else {
		for _, name := range selected[2:] {
			if _, err := q.table.codec.lookup(name); err != nil && name != timestamp {
				return p, err
			}
		}
		// Without the two properties of the envelope the values could not be decrypted. Project asks for them.
		if q.table.encryption != nil && len(selected) > 2 {
			return p, errors.New("Select of a table with encryption: use Project")
		}
	}
	p.Select = strings.Join(selected, ",")
	if q.pageSize < 0 || q.pageSize > maxPageSize {
		return p, fmt.Errorf("a page size of %d; the service has at most %d", q.pageSize, maxPageSize)
	}
	return p, nil
}

// options are those of the SDK, after the check that the query may be sent.
func (q *Query[T]) options() (*aztables.ListEntitiesOptions, error) {
	p, err := q.plan()
	if err != nil {
		return nil, err
	}
	// The refusal is here, on the way of each request, so that no method of Query can send a scan past it.
	if p.Scan() && !q.allowScan {
		return nil, p.refusal()
	}
	o := &aztables.ListEntitiesOptions{}
	if p.Filter != "" {
		o.Filter = &p.Filter
	}
	if p.Select != "" {
		o.Select = &p.Select
	}
	// A limit below a page is sent as $top: First reads one entity, not 1,000.
	if n := min(q.limit, maxPageSize); q.pageSize > 0 || n < maxPageSize {
		if q.pageSize > 0 {
			n = min(n, q.pageSize)
		}
		o.Top = to.Ptr(int32(max(n, 1)))
	}
	return o, nil
}

// All yields the entities in the order of PartitionKey, then RowKey, and asks for page after page as they are needed.
// An error ends it; what was yielded before it is valid.
func (q *Query[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := q.each(ctx, func(r *raw) (bool, error) {
			var e T
			if err := q.table.decodeSelected(ctx, r, &e, q.selected != nil); err != nil {
				return false, &Error{Op: "query", Table: q.table.name, Key: r.key, Err: err}
			}
			stopped = !yield(e, nil)
			return !stopped, nil
		})
		if err != nil && !stopped {
			var zero T
			yield(zero, q.wrap(err))
		}
	}
}

func (q *Query[T]) wrap(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return q.table.wrap("query", Key{}, err)
}

// each calls visit for every entity up to the limit, until it returns false.
func (q *Query[T]) each(ctx context.Context, visit func(*raw) (bool, error)) error {
	options, err := q.options()
	if err != nil {
		return err
	}
	// left is what the caller may still be given. A page may be empty and not be the last, so that the pager decides
	// alone whether there are more.
	left := q.limit
	var rd reader
	for pager := q.table.client.NewListEntitiesPager(options); pager.More() && left > 0; {
		body, err := payload(ctx, func(ctx context.Context) error {
			_, err := pager.NextPage(ctx)
			return err
		})
		if err != nil {
			return err
		}
		more := true
		err = eachEntity(body, &rd, func(r *raw) error {
			if left--; left < 0 {
				return errEnough
			}
			if more, err = visit(r); err == nil && !more {
				err = errEnough
			}
			return err
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends eachEntity.
var errEnough = errors.New("enough")

// eachEntity calls visit for the entities of an answer.
func eachEntity(body []byte, rd *reader, visit func(*raw) error) error {
	members, err := appendMembers(nil, body)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(members, func(m member) bool { return m.name == "value" })
	if at < 0 {
		return errJSON
	}
	return elements(members[at].value, func(b []byte) error {
		r, err := rd.read(b)
		if err != nil {
			return err
		}
		return visit(r)
	})
}

// decodeSelected is decode for entities of which some properties were asked for, whose keys cannot be computed.
func (t *Table[T]) decodeSelected(ctx context.Context, r *raw, e *T, selected bool) error {
	s, ok := t.codec.(*structCodec)
	if !ok || !selected {
		return t.decode(ctx, r, e)
	}
	return s.schema.decode(r, reflect.ValueOf(e).Elem())
}

// Page is one page of a query.
type Page[T any] struct {
	Items []T
	// Next is the position of the next page, for [Query.Page]; empty on the last page. It can be stored, and used in
	// another process.
	Next string
}

// token is the content of a Page's Next.
type token struct{ P, R string }

// Page asks for one page: the first one, or the one that a token begins. A page may have fewer entities than PageSize,
// or none, and still not be the last.
func (q *Query[T]) Page(ctx context.Context, next string) (Page[T], error) {
	p, err := q.page(ctx, next)
	return p, q.wrap(err)
}

func (q *Query[T]) page(ctx context.Context, next string) (p Page[T], err error) {
	options, err := q.options()
	if err != nil {
		return p, err
	}
	if next != "" {
		var at token
		text, err := base64.RawURLEncoding.DecodeString(next)
		if err == nil {
			err = json.Unmarshal(text, &at)
		}
		// The service takes NextRowKey only together with NextPartitionKey; with neither it would begin from the start
		// again.
		if err != nil || at.P == "" {
			return p, fmt.Errorf("%q is not a token of a page", next)
		}
		options.NextPartitionKey, options.NextRowKey = &at.P, &at.R
	}
	var answer aztables.ListEntitiesResponse
	body, err := payload(ctx, func(ctx context.Context) (err error) {
		answer, err = q.table.client.NewListEntitiesPager(options).NextPage(ctx)
		return err
	})
	if err != nil {
		return p, err
	}
	var rd reader
	err = eachEntity(body, &rd, func(r *raw) error {
		var e T
		err := q.table.decodeSelected(ctx, r, &e, q.selected != nil)
		p.Items = append(p.Items, e)
		return err
	})
	if err == nil && answer.NextPartitionKey != nil && *answer.NextPartitionKey != "" {
		at := token{P: *answer.NextPartitionKey}
		if answer.NextRowKey != nil {
			at.R = *answer.NextRowKey
		}
		text, err := json.Marshal(at)
		p.Next = base64.RawURLEncoding.EncodeToString(text)
		return p, err
	}
	return p, err
}

// First returns the first entity, or [ErrNotFound].
func (q *Query[T]) First(ctx context.Context) (T, error) {
	for e, err := range q.Limit(1).All(ctx) {
		return e, err
	}
	var zero T
	return zero, &Error{Op: "query", Table: q.table.name, Err: ErrNotFound}
}

// Count counts the entities. The service has no count, so that all are read; only their keys are transferred.
func (q *Query[T]) Count(ctx context.Context) (n int, err error) {
	keys := *q
	keys.selected = []string{partitionKey, rowKey}
	err = keys.each(ctx, func(*raw) (bool, error) { n++; return true, nil })
	return n, q.wrap(err)
}
