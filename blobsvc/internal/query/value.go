package query

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"time"
)

// kind is the type of a value.
type kind byte

const (
	missing kind = iota // a JSON field that the record does not have
	null
	boolean
	integer
	float
	text
	timestamp
	tree // a JSON object or array, as its text
)

// value is one value. Its bytes may belong to the record that is being read.
type value struct {
	kind kind
	n    int64   // integer; boolean: 0 or 1
	f    float64 // float
	b    []byte  // text, tree; for a number from JSON, its text there
	t    time.Time
}

var (
	nullValue = value{kind: null}
	yes, no   = value{kind: boolean, n: 1}, value{kind: boolean}
)

func boolValue(b bool) value {
	if b {
		return yes
	}
	return no
}

func intValue(n int64) value      { return value{kind: integer, n: n} }
func floatValue(f float64) value  { return value{kind: float, f: f} }
func textValue(s string) value    { return value{kind: text, b: []byte(s)} }
func bytesValue(b []byte) value   { return value{kind: text, b: b} }
func timeValue(t time.Time) value { return value{kind: timestamp, t: t} }

// absent reports whether v is null or missing.
func (v value) absent() bool { return v.kind <= null }

// number converts text to a number. Numbers are unchanged.
func (v value) number() (value, error) {
	switch v.kind {
	case integer, float, missing, null:
		return v, nil
	case boolean:
		return intValue(v.n), nil
	case text:
		if n, ok := parseNumber(bytes.TrimSpace(v.b)); ok {
			return n, nil
		}
	}
	return value{}, errConversion
}

// parseNumber parses a decimal number. It parses short integers, the most frequent case, itself: package strconv
// allocates an error for each text that is not a number.
func parseNumber(b []byte) (value, bool) {
	digits := b
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	var n int64
	whole := len(digits) > 0
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0') // not used if it may have overflowed
		case c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+':
			whole = false
		default:
			return value{}, false
		}
	}
	if whole && len(digits) <= 18 {
		if b[0] == '-' {
			n = -n
		}
		return intValue(n), true
	}
	if whole {
		if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
			return intValue(n), true
		}
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return floatValue(f), err == nil && !math.IsInf(f, 0)
}

func (v value) float() float64 {
	if v.kind == integer {
		return float64(v.n)
	}
	return v.f
}

func (v value) bool() (value, error) {
	switch v.kind {
	case boolean, missing, null:
		return v, nil
	case integer:
		return boolValue(v.n != 0), nil
	case text:
		switch {
		case bytes.EqualFold(v.b, []byte("true")), string(v.b) == "1":
			return yes, nil
		case bytes.EqualFold(v.b, []byte("false")), string(v.b) == "0":
			return no, nil
		}
	}
	return value{}, errConversion
}

func (v value) time() (value, error) {
	switch v.kind {
	case timestamp, missing, null:
		return v, nil
	case text:
		if t, ok := parseTime(string(bytes.TrimSpace(v.b))); ok {
			return timeValue(t), nil
		}
	}
	return value{}, errConversion
}

// text converts v to text.
func (v value) text() value {
	if v.kind == text || v.absent() {
		return v
	}
	return bytesValue(v.appendText(nil))
}

// appendText appends v as in delimited text. Nulls are empty.
func (v value) appendText(b []byte) []byte {
	switch v.kind {
	case boolean:
		return strconv.AppendBool(b, v.n != 0)
	case integer, float:
		if v.b != nil {
			return append(b, v.b...)
		}
	}
	switch v.kind {
	case integer:
		return strconv.AppendInt(b, v.n, 10)
	case float:
		return appendFloat(b, v.f)
	case text, tree:
		return append(b, v.b...)
	case timestamp:
		return v.t.AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	}
	return b
}

// appendFloat appends a number in a format that is valid in JSON, too.
func appendFloat(b []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// compare orders two values, neither of which is absent. If the types differ, the one of lower precedence is converted:
// timestamps come first, then numbers, booleans, and text.
// https://learn.microsoft.com/sql/t-sql/data-types/data-type-precedence-transact-sql
func compare(a, b value) (int, error) {
	if a.kind == text && b.kind == text {
		return bytes.Compare(a.b, b.b), nil
	}
	// An object or array has no order, and no text that is defined.
	if a.kind == tree || b.kind == tree {
		return 0, errConversion
	}
	var err error
	// Both in the same direction: to a moment first, then to a number.
	convert := func(to func(value) (value, error)) error {
		if a, err = to(a); err == nil {
			b, err = to(b)
		}
		return err
	}
	either := func(k kind) bool { return a.kind == k || b.kind == k }
	switch {
	case either(timestamp):
		if err := convert(value.time); err != nil {
			return 0, err
		}
		return a.t.Compare(b.t), nil
	case either(float), either(integer):
		if err := convert(value.number); err != nil {
			return 0, err
		}
		// Compared as integers, since two of 2^53 and more may be the same as floats.
		if a.kind == integer && b.kind == integer {
			return cmp.Compare(a.n, b.n), nil
		}
		return cmp.Compare(a.float(), b.float()), nil
	}
	if err := convert(value.bool); err != nil {
		return 0, err
	}
	return cmp.Compare(a.n, b.n), nil
}

// cast converts to a type of the language. Errors: errConversion.
func (v value) cast(to kind) (value, error) {
	if v.absent() {
		return v, nil
	}
	switch to {
	case text:
		return v.text(), nil
	case boolean:
		return v.bool()
	case timestamp:
		return v.time()
	}
	v, err := v.number()
	switch {
	case err != nil:
		return v, err
	case to == float:
		return floatValue(v.float()), nil
	case v.kind == float:
		// math.MaxInt64 is rounded up to 2^63 here, which is no int64, so that it is excluded. NaN fails both comparisons.
		if !(v.f >= math.MinInt64 && v.f < math.MaxInt64) {
			return v, errConversion
		}
		return intValue(int64(v.f)), nil
	}
	return v, nil
}
