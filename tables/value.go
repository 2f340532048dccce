package tables

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// edm is a type of the Table service.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#property-types
type edm string

const (
	edmString   edm = "Edm.String"
	edmBoolean  edm = "Edm.Boolean"
	edmInt32    edm = "Edm.Int32"
	edmInt64    edm = "Edm.Int64"
	edmDouble   edm = "Edm.Double"
	edmDateTime edm = "Edm.DateTime"
	edmGUID     edm = "Edm.Guid"
	edmBinary   edm = "Edm.Binary"
)

// annotated reports whether a value of the type is sent with its type: for the others JSON tells it. A Double is always
// sent with it, since 5.0 may become 5 on its way through a JSON library.
func (t edm) annotated() bool {
	return t != edmString && t != edmBoolean && t != edmInt32
}

// valueCodec converts values of one Go type.
type valueCodec struct {
	edm edm
	// absent reports whether the value is not stored; nil means never.
	absent func(reflect.Value) bool
	// append appends the value in JSON.
	append func([]byte, reflect.Value) ([]byte, error)
	// set sets the value from JSON of the type from.
	set func(v reflect.Value, raw []byte, from edm) error
}

var (
	timeType        = reflect.TypeFor[time.Time]()
	uuidType        = reflect.TypeFor[uuid.UUID]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// codecOf returns how values of a Go type are stored.
func codecOf(t reflect.Type) (valueCodec, error) {
	switch {
	case t == timeType:
		return timeCodec, nil
	case t == uuidType:
		return uuidCodec, nil
	case t.Kind() == reflect.Pointer:
		inner, err := codecOf(t.Elem())
		return pointerCodec(t, inner), err
	case t.Implements(textMarshaler) && reflect.PointerTo(t).Implements(textUnmarshaler):
		return textCodec, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return binaryCodec, nil
	}
	switch t.Kind() {
	case reflect.String:
		return stringCodec, nil
	case reflect.Bool:
		return boolCodec, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return intCodec(edmInt32), nil
	case reflect.Int, reflect.Int64:
		return intCodec(edmInt64), nil
	case reflect.Uint8, reflect.Uint16:
		return uintCodec(edmInt32), nil
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return uintCodec(edmInt64), nil
	case reflect.Float32, reflect.Float64:
		return floatCodec, nil
	}
	return valueCodec{}, fmt.Errorf("the service has no type for %v", t)
}

func mismatch(from edm, v reflect.Value) error {
	return fmt.Errorf("a stored %s does not fit the Go type %v", from, v.Type())
}

func pointerCodec(t reflect.Type, inner valueCodec) valueCodec {
	return valueCodec{
		edm:    inner.edm,
		absent: func(v reflect.Value) bool { return v.IsNil() || inner.absent != nil && inner.absent(v.Elem()) },
		append: func(b []byte, v reflect.Value) ([]byte, error) { return inner.append(b, v.Elem()) },
		set: func(v reflect.Value, raw []byte, from edm) error {
			p := reflect.New(t.Elem())
			if err := inner.set(p.Elem(), raw, from); err != nil {
				return err
			}
			v.Set(p)
			return nil
		},
	}
}

var stringCodec = valueCodec{
	edm: edmString,
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		if !utf8.ValidString(v.String()) {
			return b, errors.New("the text is not valid UTF-8")
		}
		return appendQuoted(b, v.String()), nil
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmString {
			return mismatch(from, v)
		}
		s, err := unquote(raw)
		v.SetString(s)
		return err
	},
}

var boolCodec = valueCodec{
	edm:    edmBoolean,
	append: func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendBool(b, v.Bool()), nil },
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmBoolean {
			return mismatch(from, v)
		}
		v.SetBool(raw[0] == 't')
		return nil
	},
}

// appendInt appends an integer as its type is sent: an Int64 is a JSON string.
func appendInt(b []byte, t edm, n int64) []byte {
	if t == edmInt64 {
		return append(strconv.AppendInt(append(b, '"'), n, 10), '"')
	}
	return strconv.AppendInt(b, n, 10)
}

// parseInt reads a stored Int32 or Int64.
func parseInt(v reflect.Value, raw []byte, from edm) (int64, error) {
	switch from {
	case edmInt64:
		raw = bytes.Trim(raw, `"`)
	case edmInt32:
	default:
		return 0, mismatch(from, v)
	}
	return strconv.ParseInt(string(raw), 10, 64)
}

func intCodec(t edm) valueCodec {
	return valueCodec{
		edm:    t,
		append: func(b []byte, v reflect.Value) ([]byte, error) { return appendInt(b, t, v.Int()), nil },
		set: func(v reflect.Value, raw []byte, from edm) error {
			n, err := parseInt(v, raw, from)
			if err == nil && v.OverflowInt(n) {
				err = fmt.Errorf("the stored number %d does not fit the Go type %v", n, v.Type())
			}
			if err == nil {
				v.SetInt(n)
			}
			return err
		},
	}
}

func uintCodec(t edm) valueCodec {
	return valueCodec{
		edm: t,
		append: func(b []byte, v reflect.Value) ([]byte, error) {
			if v.Uint() > math.MaxInt64 {
				return b, fmt.Errorf("%d is larger than the largest Int64", v.Uint())
			}
			return appendInt(b, t, int64(v.Uint())), nil
		},
		set: func(v reflect.Value, raw []byte, from edm) error {
			n, err := parseInt(v, raw, from)
			if err == nil && (n < 0 || v.OverflowUint(uint64(n))) {
				err = fmt.Errorf("the stored number %d does not fit the Go type %v", n, v.Type())
			}
			if err == nil {
				v.SetUint(uint64(n))
			}
			return err
		},
	}
}

var floatCodec = valueCodec{
	edm: edmDouble,
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		switch x := v.Float(); {
		case math.IsNaN(x):
			return append(b, `"NaN"`...), nil
		case math.IsInf(x, 1):
			return append(b, `"Infinity"`...), nil
		case math.IsInf(x, -1):
			return append(b, `"-Infinity"`...), nil
		default:
			return appendDouble(b, x, v.Type().Bits()), nil
		}
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmDouble && from != edmInt32 {
			return mismatch(from, v)
		}
		x, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
		v.SetFloat(x)
		return err
	},
}

// appendDouble appends a number with a point or an exponent, which tells a Double from an integer.
func appendDouble(b []byte, x float64, bits int) []byte {
	begun := len(b)
	b = strconv.AppendFloat(b, x, 'g', -1, bits)
	if bytes.ContainsAny(b[begun:], ".e") {
		return b
	}
	return append(b, ".0"...)
}

// timeLayout has the service's precision.
const timeLayout = "2006-01-02T15:04:05.0000000Z"

// The service's range of times.
var (
	minTime = time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(9999, 12, 31, 23, 59, 59, 999999900, time.UTC)
)

// checkTime returns the time as the service keeps it.
func checkTime(t time.Time) (time.Time, error) {
	t = t.UTC().Truncate(100 * time.Nanosecond)
	if t.Before(minTime) || t.After(maxTime) {
		return t, fmt.Errorf("the time %v is not between the years 1601 and 9999", t)
	}
	return t, nil
}

var timeCodec = valueCodec{
	edm:    edmDateTime,
	absent: func(v reflect.Value) bool { return v.IsZero() || v.Interface().(time.Time).IsZero() },
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		t, err := checkTime(v.Interface().(time.Time))
		if err != nil {
			return b, err
		}
		return append(t.AppendFormat(append(b, '"'), timeLayout), '"'), nil
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmDateTime {
			return mismatch(from, v)
		}
		t, err := parseTime(raw)
		v.Set(reflect.ValueOf(t))
		return err
	},
}

func parseTime(raw []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(raw, `"`)))
	return t.UTC(), err
}

var uuidCodec = valueCodec{
	edm: edmGUID,
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		return append(append(append(b, '"'), v.Interface().(uuid.UUID).String()...), '"'), nil
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmGUID {
			return mismatch(from, v)
		}
		id, err := uuid.ParseBytes(bytes.Trim(raw, `"`))
		v.Set(reflect.ValueOf(id))
		return err
	},
}

var binaryCodec = valueCodec{
	edm:    edmBinary,
	absent: func(v reflect.Value) bool { return v.IsNil() },
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"'), nil
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmBinary {
			return mismatch(from, v)
		}
		text, err := unquote(raw) // A slash may be escaped.
		if err != nil {
			return err
		}
		content, err := base64.StdEncoding.DecodeString(text)
		v.SetBytes(content)
		return err
	},
}

var textCodec = valueCodec{
	edm: edmString,
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err == nil && !utf8.Valid(text) {
			err = errors.New("the text is not valid UTF-8")
		}
		return appendQuoted(b, string(text)), err
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmString {
			return mismatch(from, v)
		}
		s, err := unquote(raw)
		if err != nil {
			return err
		}
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	},
}

// jsonCodec stores values of any type as JSON in a String.
var jsonCodec = valueCodec{
	edm: edmString,
	append: func(b []byte, v reflect.Value) ([]byte, error) {
		text, err := json.Marshal(v.Interface())
		return appendQuoted(b, string(text)), err
	},
	set: func(v reflect.Value, raw []byte, from edm) error {
		if from != edmString {
			return mismatch(from, v)
		}
		s, err := unquote(raw)
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(s), v.Addr().Interface())
	},
}
