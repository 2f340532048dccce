package tables

import (
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Expr is a condition of a query. The zero Expr holds for every entity.
type Expr struct {
	op    string // "" always, "and", "or", "not", or that of a comparison
	parts []Expr // of and, or, not
	field Field  // of a comparison
	value any
	err   error
}

// Field is a property in a condition, by the name under which it is stored. A query checks that its type has the
// property, and converts the constant to the property's type; with [Entity] the constant's Go type decides.
type Field string

// The keys in a condition.
const (
	PartitionKey Field = partitionKey
	RowKey       Field = rowKey
)

// Timestamp is the service's time of the last change in a condition.
const Timestamp Field = timestamp

func (f Field) compare(op string, value any) Expr { return Expr{op: op, field: f, value: value} }

// Eq holds if the property equals the value. An entity without the property, or with one of another type, satisfies no
// comparison.
func (f Field) Eq(value any) Expr { return f.compare("eq", value) }

// Ne holds if the property is there and differs from the value.
func (f Field) Ne(value any) Expr { return f.compare("ne", value) }

// Gt holds if the property is greater than the value. Text compares by UTF-16 code units, capitals before small
// letters.
func (f Field) Gt(value any) Expr { return f.compare("gt", value) }

// Ge holds if the property is greater than or equal to the value.
func (f Field) Ge(value any) Expr { return f.compare("ge", value) }

// Lt holds if the property is less than the value.
func (f Field) Lt(value any) Expr { return f.compare("lt", value) }

// Le holds if the property is less than or equal to the value.
func (f Field) Le(value any) Expr { return f.compare("le", value) }

// Between holds if from <= property < to.
func (f Field) Between(from, to any) Expr { return And(f.Ge(from), f.Lt(to)) }

// StartsWith holds if the text begins with prefix. It is sent as a range, since the service has no such function: on
// RowKey it is as cheap as one. The empty prefix holds for all texts.
func (f Field) StartsWith(prefix string) Expr {
	end, ok := successor(prefix)
	if !ok {
		return f.Ge(prefix)
	}
	return And(f.Ge(prefix), f.Lt(end))
}

// And holds if all conditions hold; without conditions it always does.
func And(conditions ...Expr) Expr { return join("and", conditions) }

// Or holds if one of the conditions holds; without conditions it is an error. On Azure a query with Or over RowKeys
// scans the partition: several queries, sent in parallel, cost less.
func Or(conditions ...Expr) Expr {
	if len(conditions) == 0 {
		return Expr{err: errors.New("Or has no conditions")}
	}
	for _, c := range conditions {
		if c.op == "" && c.err == nil {
			return Expr{} // It always holds.
		}
	}
	return join("or", conditions)
}

// Not holds if the condition does not: also for entities that lack the property.
func Not(condition Expr) Expr {
	if condition.op == "" && condition.err == nil {
		return Expr{err: errors.New("Not of a condition that always holds")}
	}
	return Expr{op: "not", parts: []Expr{condition}, err: condition.err}
}

func join(op string, conditions []Expr) Expr {
	e := Expr{op: op}
	for _, c := range conditions {
		if c.err != nil {
			return c
		}
		if c.op != "" {
			e.parts = append(e.parts, c)
		}
	}
	switch len(e.parts) {
	case 0:
		return Expr{}
	case 1:
		return e.parts[0]
	}
	return e
}

// maxDepth bounds the nesting of conditions.
const maxDepth = 100

// appendTo appends the condition as $filter has it.
// https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities#constructing-filter-strings
func (e Expr) appendTo(b []byte, types func(string) (edm, error), depth int) (_ []byte, err error) {
	if e.err != nil {
		return b, e.err
	}
	if depth > maxDepth {
		return b, fmt.Errorf("conditions are nested more than %d deep", maxDepth)
	}
	switch e.op {
	case "and", "or":
		for i, p := range e.parts {
			if i > 0 {
				b = append(append(append(b, ' '), e.op...), ' ')
			}
			// The service gives and precedence over or. Parentheses around each nested part make the text independent
			// of that.
			nested := p.op == "and" || p.op == "or"
			if nested {
				b = append(b, '(')
			}
			if b, err = p.appendTo(b, types, depth+1); err != nil {
				return b, err
			}
			if nested {
				b = append(b, ')')
			}
		}
		return b, nil
	case "not":
		if b, err = e.parts[0].appendTo(append(b, "not ("...), types, depth+1); err != nil {
			return b, err
		}
		return append(b, ')'), nil
	}
	t, err := e.field.typeIn(types)
	if err != nil {
		return b, err
	}
	b = append(append(append(append(b, e.field...), ' '), e.op...), ' ')
	if b, err = appendConstant(b, t, e.value); err != nil {
		err = fmt.Errorf("condition on %s: %w", e.field, err)
	}
	return b, err
}

func (f Field) typeIn(types func(string) (edm, error)) (edm, error) {
	switch string(f) {
	case partitionKey, rowKey:
		return edmString, nil
	case timestamp:
		return edmDateTime, nil
	}
	if !validPropertyName(string(f)) {
		return "", fmt.Errorf("%q is not a property name", string(f))
	}
	return types(string(f))
}

// appendConstant appends a constant of the type t, or of that of the value if t is empty.
func appendConstant(b []byte, t edm, value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	if value == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return b, errors.New("the constant is nil; the service has no null")
	}
	// A field of a struct may be a pointer, for a property that is optional, and its value is then a usual constant.
	if v.Kind() == reflect.Pointer {
		return appendConstant(b, t, v.Elem().Interface())
	}
	// With Entity no type is declared: the constant's own type is that of the comparison.
	if t == "" {
		c, err := codecOf(v.Type())
		if err != nil {
			return b, err
		}
		t = c.edm
	}
	switch t {
	case edmString:
		return appendText(b, v)
	case edmBoolean:
		if v.Kind() == reflect.Bool {
			return strconv.AppendBool(b, v.Bool()), nil
		}
	case edmInt32, edmInt64:
		if n, ok := integer(v); ok {
			return appendInteger(b, t, n)
		}
	case edmDouble:
		if x, ok := double(v); ok {
			// NaN equals nothing, and Azure's grammar for filters has no literal for it or for the infinities.
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return b, fmt.Errorf("%v is not a constant that every service understands", x)
			}
			return appendDouble(b, x, 64), nil
		}
	case edmDateTime:
		if at, ok := value.(time.Time); ok {
			at, err := checkTime(at)
			return append(at.AppendFormat(append(b, "datetime'"...), timeLayout), '\''), err
		}
	case edmGUID:
		if id, ok := value.(uuid.UUID); ok {
			return append(append(append(b, "guid'"...), id.String()...), '\''), nil
		}
	case edmBinary:
		if content, ok := value.([]byte); ok {
			return append(hex.AppendEncode(append(b, "X'"...), content), '\''), nil
		}
	}
	return b, fmt.Errorf("a %T is not a constant of the type %s", value, t)
}

func appendText(b []byte, v reflect.Value) ([]byte, error) {
	var text string
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && v.Type() != timeType && v.Type() != uuidType {
		out, err := m.MarshalText()
		if err != nil {
			return b, err
		}
		text = string(out)
	} else if v.Kind() == reflect.String {
		text = v.String()
	} else {
		return b, fmt.Errorf("a %v is not text", v.Type())
	}
	if !utf8.ValidString(text) {
		return b, errors.New("the text is not valid UTF-8")
	}
	return append(append(append(b, '\''), strings.ReplaceAll(text, "'", "''")...), '\''), nil
}

func appendInteger(b []byte, t edm, n int64) ([]byte, error) {
	b = strconv.AppendInt(b, n, 10)
	if t == edmInt64 {
		return append(b, 'L'), nil
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return b, fmt.Errorf("%d is not an Int32", n)
	}
	return b, nil
}

func integer(v reflect.Value) (int64, bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint()), true
	}
	return 0, false
}

// double returns a number as a float64, if it is one exactly.
func double(v reflect.Value) (float64, bool) {
	if v.CanFloat() {
		return v.Float(), true
	}
	n, ok := integer(v)
	return float64(n), ok && int64(float64(n)) == n && n != math.MaxInt64
}
