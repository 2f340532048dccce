package entity

import (
	"bytes"
	"cmp"
	"math"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Type is the type of a property. The numbers are on disk and never change.
type Type uint8

// The types of the data model. The zero value is not a type.
const (
	String   Type = 1 // UTF-8 in memory and on disk, at most 32 Ki UTF-16 code units
	Binary   Type = 2 // at most 64 KiB
	Boolean  Type = 3
	DateTime Type = 4 // UTC ticks, see [ticks.Ticks]
	Double   Type = 5 // any IEEE 754 value, including NaN and the infinities
	GUID     Type = 6 // 16 bytes in the order of the text form
	Int32    Type = 7
	Int64    Type = 8

	lastType = Int64
)

// edmNames are the names of the types in annotations.
var edmNames = [...]string{"", "Edm.String", "Edm.Binary", "Edm.Boolean", "Edm.DateTime", "Edm.Double", "Edm.Guid",
	"Edm.Int32", "Edm.Int64"}

// String returns the name of the type in annotations, "Edm.Int64".
func (t Type) String() string {
	if t > lastType {
		return "invalid"
	}
	return edmNames[t]
}

// typeByName returns the type that an annotation names. ok is false for an unknown name.
func typeByName[S string | []byte](name S) (t Type, ok bool) {
	for t, n := range edmNames {
		if t > 0 && string(name) == n {
			return Type(t), true
		}
	}
	return 0, false
}

// Value is a typed value. The type says which field holds it.
type Value struct {
	Type Type
	// Num is the value of a Boolean (0 or 1), DateTime (ticks), Double (its bits), Int32 or Int64 (sign-extended).
	Num uint64
	// Bytes is the value of a String (UTF-8), Binary or GUID.
	Bytes []byte
}

// StringValue returns a String.
func StringValue(s string) Value { return Value{Type: String, Bytes: []byte(s)} }

// BoolValue returns a Boolean.
func BoolValue(b bool) Value {
	if b {
		return Value{Type: Boolean, Num: 1}
	}
	return Value{Type: Boolean}
}

// Int32Value returns an Int32.
func Int32Value(n int32) Value { return Value{Type: Int32, Num: uint64(int64(n))} }

// Int64Value returns an Int64.
func Int64Value(n int64) Value { return Value{Type: Int64, Num: uint64(n)} }

// DoubleValue returns a Double.
func DoubleValue(f float64) Value { return Value{Type: Double, Num: math.Float64bits(f)} }

// TimeValue returns a DateTime.
func TimeValue(t ticks.Ticks) Value { return Value{Type: DateTime, Num: uint64(t)} }

// Float returns the value of a Double.
func (v Value) Float() float64 { return math.Float64frombits(v.Num) }

// Compare orders two values of one type, as Azure's filters do. ok is false if they have no order: for values of
// different types, and for NaN.
func Compare(a, b Value) (order int, ok bool) {
	if a.Type != b.Type {
		return 0, false
	}
	switch a.Type {
	case String:
		return CompareStrings(a.Bytes, b.Bytes), true
	case Binary, GUID:
		return bytes.Compare(a.Bytes, b.Bytes), true
	case Double:
		x, y := a.Float(), b.Float()
		if x != x || y != y {
			return 0, false
		}
		return cmp.Compare(x, y), true
	}
	return cmp.Compare(int64(a.Num), int64(b.Num)), true
}

// CompareStrings orders UTF-8 text by UTF-16 code units, the order of Azure's keys and filters. It differs from byte
// order only in that characters beyond U+FFFF, which UTF-16 writes with surrogates, come before U+E000 to U+FFFF.
func CompareStrings(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return cmp.Compare(len(a), len(b))
	}
	x, y := a[i], b[i]
	// Lead bytes from 0xF0 on begin a supplementary character; 0xEE and 0xEF begin U+E000 to U+FFFF.
	if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(x, y)
}
