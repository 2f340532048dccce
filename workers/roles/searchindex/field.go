package searchindex

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
)

// Type says how a property is indexed.
type Type string

// The types of fields. An entity whose property has a value that the type does not take is indexed without that field.
const (
	// Text takes strings. Words are found in any case and order, and matches are highlighted. Searches without a field
	// name search all Text fields.
	Text Type = "text"
	// Keyword takes strings, numbers, booleans, times and GUIDs, and finds only the whole value, as text.
	Keyword Type = "keyword"
	// Number takes numbers, and finds ranges. Values are float64: integers beyond 2^53 are rounded, NaN and the infinities
	// are not indexed.
	Number Type = "number"
	// Date takes times from 1678 to 2261, and finds ranges.
	Date Type = "date"
)

// Types are the types of fields.
var Types = []Type{Text, Keyword, Number, Date}

// Field is a property that is indexed. PartitionKey, RowKey and Timestamp are names of properties here.
type Field struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// MaxFields is the maximum number of fields of an index: the maximum number of properties of an entity, with its keys
// and time.
const MaxFields = 255

// ErrFields is wrapped by errors about the fields of an index.
var ErrFields = errors.New("searchindex: invalid fields")

// ParseFields reads a list of fields such as "Name:text,Town:keyword".
func ParseFields(text string) ([]Field, error) {
	var fields []Field
	for part := range strings.SplitSeq(text, ",") {
		name, kind, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, fmt.Errorf("%w: %q is not NAME:TYPE", ErrFields, part)
		}
		fields = append(fields, Field{name, Type(kind)})
	}
	return fields, validateFields(fields)
}

func validateFields(fields []Field) error {
	if len(fields) == 0 || len(fields) > MaxFields {
		return fmt.Errorf("%w: %d fields; want 1 to %d", ErrFields, len(fields), MaxFields)
	}
	seen := map[string]bool{}
	for _, f := range fields {
		switch {
		case !propertyName(f.Name):
			return fmt.Errorf("%w: %q is not the name of a property", ErrFields, f.Name)
		// bleve gives these names a meaning in queries and orders, so a property of the name could not be asked for.
		case f.Name == "_id" || f.Name == "_all" || f.Name == "_score":
			return fmt.Errorf("%w: %s has a meaning of its own in searches", ErrFields, f.Name)
		case !slices.Contains(Types, f.Type):
			return fmt.Errorf("%w: %s has the type %q; the types are text, keyword, number and date", ErrFields, f.Name, f.Type)
		case seen[f.Name]:
			return fmt.Errorf("%w: %s is named twice", ErrFields, f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// propertyName reports whether name can be a property's name without characters that searches treat specially.
func propertyName(name string) bool {
	if name == "" || len(name) > 255 {
		return false
	}
	return strings.IndexFunc(name,
		func(r rune) bool { return strings.ContainsRune(" \t\r\n:\"'\\/+-=&|><!(){}[]^~*?.,", r) }) < 0
}

// FieldsOf returns the fields of a struct whose fields have a tag with their type, `search:"text"`. The name of the
// property is the one of the tag `table:"Name"`, as package tables has it, or the field's name. Fields of embedded
// structs are included.
func FieldsOf[T any]() ([]Field, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is not a struct", ErrFields, t)
	}
	var fields []Field
	for _, f := range reflect.VisibleFields(t) {
		kind, ok := f.Tag.Lookup("search")
		if !ok || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("table"), ",")
		// Such a property is not in the table, or as ciphertext: the index would stay empty without saying why.
		if name == "-" || slices.Contains(strings.Split(options, ","), "encrypt") {
			return nil, fmt.Errorf("%w: %v.%s is not stored as readable property", ErrFields, t, f.Name)
		}
		if name == "" {
			name = f.Name
		}
		fields = append(fields, Field{name, Type(kind)})
	}
	return fields, validateFields(fields)
}

// The times that the index can store, in nanoseconds since 1970.
var (
	firstDate = time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC)
	afterDate = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

// value returns the value of the field: a string, a float64 or a time.Time, or nil if the entity has none that the type
// takes.
func (f Field) value(e *tables.Entity) any {
	v := f.property(e)
	switch f.Type {
	case Text:
		if s, ok := v.(string); ok {
			return s
		}
	case Keyword:
		if s, ok := keyword(v); ok {
			return s
		}
	case Number:
		if n, ok := number(v); ok {
			return n
		}
	case Date:
		// bleve counts dates in nanoseconds of an int64. A date outside would wrap around and be found in the wrong century.
		if t, ok := v.(time.Time); ok && !t.Before(firstDate) && t.Before(afterDate) {
			return t.UTC()
		}
	}
	return nil
}

func (f Field) property(e *tables.Entity) any {
	switch f.Name {
	case "PartitionKey":
		return e.PartitionKey
	case "RowKey":
		return e.RowKey
	case "Timestamp":
		return e.Timestamp
	}
	return e.Properties[f.Name]
}

func keyword(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	case uuid.UUID:
		return v.String(), true
	}
	return "", false
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		// They have no place in the order of values that ranges and sorting need.
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}
