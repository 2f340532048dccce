package largeentity

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// codec turns values of a struct type into properties and back.
type codec struct {
	typ    reflect.Type
	fields []field
}

type field struct {
	name  string
	index []int
	typ   reflect.Type
}

// maxPropertyName is the service's limit, in characters.
const maxPropertyName = 255

// propertyName is stricter than the service, which allows letters of every script.
var propertyName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// newCodec reads a struct type: each exported field is a property, called as the field, or as its tag says, `table:"Name"`;
// `table:"-"` leaves it out.
func newCodec(t reflect.Type) (*codec, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("largeentity: %v is not a struct", t)
	}
	c := &codec{typ: t}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
			continue
		}
		name := f.Name
		if tag, ok := f.Tag.Lookup("table"); ok {
			name = tag
		}
		switch {
		case name == "-":
			continue
		case slices.Contains([]string{"PartitionKey", "RowKey", "Timestamp", PointerProperty}, name):
			return nil, fmt.Errorf("largeentity: %v cannot have a property called %s", t, name)
		case len(name) > maxPropertyName || !propertyName().MatchString(name):
			return nil, fmt.Errorf("largeentity: %q of %v is not a valid property name", name, t)
		case slices.ContainsFunc(c.fields, func(o field) bool { return o.name == name }):
			return nil, fmt.Errorf("largeentity: two fields of %v have the property name %s", t, name)
		case slices.Contains([]reflect.Kind{reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer}, f.Type.Kind()):
			return nil, fmt.Errorf("largeentity: the field %s of %v cannot be stored", f.Name, t)
		}
		c.fields = append(c.fields, field{name, f.Index, f.Type})
	}
	if len(c.fields) == 0 {
		return nil, fmt.Errorf("largeentity: %v has no exported fields", t)
	}
	return c, nil
}

// timeLayout has the service's precision, 100 ns.
const timeLayout = "2006-01-02T15:04:05.0000000Z"

var (
	timeType      = reflect.TypeFor[time.Time]()
	marshalText   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// asText reports whether values of t are stored as the text of their MarshalText method.
func asText(t reflect.Type) bool {
	return t.Implements(marshalText) && reflect.PointerTo(t).Implements(unmarshalText)
}

// encode returns the properties of a value. A zero time and a nil pointer, map, slice or interface are left out: the service has no value
// for them.
func (c *codec) encode(v reflect.Value) ([]property, error) {
	all := make([]property, 0, len(c.fields))
	for _, f := range c.fields {
		value, err := v.FieldByIndexErr(f.index)
		if err != nil {
			continue // Behind a nil pointer.
		}
		p, ok, err := encodeField(f, value)
		if err != nil {
			return nil, fmt.Errorf("largeentity: %s: %w", f.name, err)
		}
		if ok {
			all = append(all, p)
		}
	}
	return all, nil
}

func encodeField(f field, v reflect.Value) (p property, ok bool, err error) {
	quoted := func(s, edm string, size int) (property, bool, error) {
		value, err := json.Marshal(s)
		return property{name: f.name, edm: edm, json: value, size: size}, true, err
	}
	switch {
	case f.typ == timeType:
		t := v.Interface().(time.Time)
		if t.IsZero() {
			return p, false, nil
		}
		return quoted(t.UTC().Format(timeLayout), "Edm.DateTime", 8)
	case asText(f.typ):
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return p, false, err
		}
		p, err = text(f.name, string(b))
		return p, true, err
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Uint8:
		if v.IsNil() {
			return p, false, nil
		}
		p, _, err = quoted(base64.StdEncoding.EncodeToString(v.Bytes()), edmBinary, v.Len())
		p.content, p.movable = v.Bytes(), true
		return p, true, err
	}
	switch f.typ.Kind() {
	case reflect.String:
		p, err = text(f.name, v.String())
		return p, true, err
	case reflect.Bool:
		return property{name: f.name, json: strconv.AppendBool(nil, v.Bool()), size: 1}, true, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return property{name: f.name, json: strconv.AppendInt(nil, v.Int(), 10), size: 4}, true, nil
	case reflect.Uint8, reflect.Uint16:
		return property{name: f.name, json: strconv.AppendUint(nil, v.Uint(), 10), size: 4}, true, nil
	case reflect.Int, reflect.Int64:
		return quoted(strconv.FormatInt(v.Int(), 10), "Edm.Int64", 8)
	case reflect.Uint, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if v.Uint() > math.MaxInt64 {
			return p, false, errors.New("the number exceeds the service's maximum")
		}
		return quoted(strconv.FormatUint(v.Uint(), 10), "Edm.Int64", 8)
	case reflect.Float32, reflect.Float64:
		switch x := v.Float(); {
		case math.IsNaN(x):
			return quoted("NaN", "Edm.Double", 8)
		case math.IsInf(x, 0):
			return quoted(map[bool]string{true: "Infinity", false: "-Infinity"}[x > 0], "Edm.Double", 8)
		default:
			value, err := json.Marshal(x)
			return property{name: f.name, edm: "Edm.Double", json: value, size: 8}, true, err
		}
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		if v.IsNil() {
			return p, false, nil
		}
	}
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return p, false, err
	}
	p, err = text(f.name, string(b))
	return p, true, err
}

// wanted returns those parts that the type has a field for.
func (c *codec) wanted(parts map[string]part) map[string]part {
	w := map[string]part{}
	for _, f := range c.fields {
		if p, ok := parts[f.name]; ok {
			w[f.name] = p
		}
	}
	return w
}

// decode fills a struct with an entity's properties and the contents of its blobs. A field without a property stays as it is.
func (c *codec) decode(v reflect.Value, entity fields, contents map[string][]byte) error {
	for _, f := range c.fields {
		content, inBlob := contents[f.name]
		value, inEntity := entity[f.name]
		if !inBlob && !inEntity {
			continue
		}
		target, err := reach(v, f.index)
		if err == nil && inBlob {
			err = decodeContent(f, target, content)
		} else if err == nil {
			err = decodeField(f, target, value)
		}
		if err != nil {
			return fmt.Errorf("largeentity: %s: %w", f.name, err)
		}
	}
	return nil
}

// reach is FieldByIndex, except that it allocates nil embedded structs.
func reach(v reflect.Value, index []int) (reflect.Value, error) {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !v.CanSet() {
					return v, errors.New("the embedded struct is not exported")
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, nil
}

// decodeContent decodes a value from a blob: bytes, or text.
func decodeContent(f field, target reflect.Value, content []byte) error {
	switch {
	case asText(f.typ) && f.typ != timeType:
		return target.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(content)
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Uint8:
		target.SetBytes(content)
		return nil
	case f.typ.Kind() == reflect.String:
		target.SetString(string(content))
		return nil
	}
	return json.Unmarshal(content, target.Addr().Interface())
}

func decodeField(f field, target reflect.Value, value json.RawMessage) error {
	var s string
	isText := json.Unmarshal(value, &s) == nil
	switch {
	case f.typ == timeType:
		t, err := time.Parse(time.RFC3339Nano, s)
		target.Set(reflect.ValueOf(t))
		return err
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Uint8 && !asText(f.typ):
		b, err := base64.StdEncoding.DecodeString(s)
		target.SetBytes(b)
		return err
	case asText(f.typ), f.typ.Kind() == reflect.String:
		if !isText {
			return errors.New("the property is not text")
		}
		return decodeContent(f, target, []byte(s))
	}
	switch f.typ.Kind() {
	case reflect.Bool:
		return json.Unmarshal(value, target.Addr().Interface())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(number(s, value), 10, f.typ.Bits())
		target.SetInt(n)
		return err
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n, err := strconv.ParseUint(number(s, value), 10, f.typ.Bits())
		target.SetUint(n)
		return err
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(number(s, value), f.typ.Bits())
		target.SetFloat(x)
		return err
	}
	if !isText {
		return errors.New("the property is not text")
	}
	return json.Unmarshal([]byte(s), target.Addr().Interface())
}

// number is a number's digits: the service writes 64-bit integers as text, the others as JSON numbers.
func number(text string, value json.RawMessage) string {
	if text != "" {
		return text
	}
	return string(value)
}
