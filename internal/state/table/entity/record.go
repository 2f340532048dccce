package entity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Record is the stored form of an entity, without its keys:
//
//	+---------+-----------------+----------+----------+---
//	| version | Timestamp       | property | property | ...
//	| 1 byte  | 8 bytes, ticks, |          |          |
//	| = 1     | big-endian      |          |          |
//	+---------+-----------------+----------+----------+---
//
// and a property is
//
//	+---------+------------+------+----------------------------------------+
//	| tag     | name length| name | value                                  |
//	| 1 byte  | uvarint    | UTF-8| String, Binary: uvarint length, bytes  |
//	|         |            |      | Boolean: 1; Int32: 4; GUID: 16;        |
//	|         |            |      | DateTime, Double, Int64: 8 bytes, b.-e.|
//	+---------+------------+------+----------------------------------------+
//
// The low four bits of a tag are the [Type]. tagPlainName and tagPlainValue say that the name, or the String's value,
// needs no escapes in JSON: rendering copies it.
//
// Properties are in the order of responses: the client's order after an insert, sorted by name after any other change.
// The zero Record is not valid.
type Record []byte

// recordVersion is the first byte of every record. A later form has another version.
const recordVersion = 1

const recordHeader = 9

const (
	tagType       = 0x0F
	tagPlainName  = 0x40
	tagPlainValue = 0x80
)

// NewRecord returns a record without properties. room is the expected size of its properties in bytes.
func NewRecord(t ticks.Ticks, room int) Record {
	r := make(Record, recordHeader, recordHeader+room)
	r[0] = recordVersion
	r.SetTimestamp(t)
	return r
}

// newRecord is like NewRecord, in the memory behind the length of space if that suffices.
func newRecord(space []byte, room int) Record {
	if cap(space)-len(space) < recordHeader+room {
		return NewRecord(0, room)
	}
	r := Record(space[len(space) : len(space)+recordHeader])
	clear(r)
	r[0] = recordVersion
	return r
}

// Valid reports whether r is long enough to have a Timestamp.
func (r Record) Valid() bool { return len(r) >= recordHeader }

// Timestamp returns when the entity was last changed.
func (r Record) Timestamp() ticks.Ticks {
	return ticks.Ticks(binary.BigEndian.Uint64(r[1:recordHeader]))
}

// SetTimestamp sets the time of the last change in place.
func (r Record) SetTimestamp(t ticks.Ticks) { binary.BigEndian.PutUint64(r[1:recordHeader], uint64(t)) }

// fixedSize is the size in bytes of a value of each type, -1 for types that store a length.
var fixedSize = [lastType + 1]int{String: -1, Binary: -1, Boolean: 1, DateTime: 8, Double: 8, GUID: 16, Int32: 4,
	Int64: 8}

// appendProperty adds a property.
func (r Record) appendProperty(name []byte, v scanned) Record {
	tag := byte(v.Type)
	if plain(name) {
		tag |= tagPlainName
	}
	if v.plain {
		tag |= tagPlainValue
	}
	r = append(r, tag)
	r = binary.AppendUvarint(r, uint64(len(name)))
	r = append(r, name...)
	if fixedSize[v.Type] < 0 {
		r = binary.AppendUvarint(r, uint64(len(v.data)))
	}
	return append(r, v.data...)
}

// Append adds a property. The record must not have the name; nothing is checked.
func (r Record) Append(name string, v Value) Record {
	var buf [8]byte
	data := v.data(buf[:0])
	return r.appendProperty([]byte(name), scanned{v.Type, data, v.Type == String && plain(data)})
}

// data returns the value as it is stored in a record. It appends numbers to buf.
func (v Value) data(buf []byte) []byte {
	switch v.Type {
	case String, Binary, GUID:
		return v.Bytes
	case Boolean:
		return append(buf, byte(v.Num))
	case Int32:
		return binary.BigEndian.AppendUint32(buf, uint32(v.Num))
	}
	return binary.BigEndian.AppendUint64(buf, v.Num)
}

// valueOf parses what data returns.
func valueOf(t Type, data []byte) Value {
	switch t {
	case String, Binary, GUID:
		return Value{Type: t, Bytes: data}
	case Boolean:
		return Value{Type: t, Num: uint64(data[0])}
	case Int32:
		return Value{Type: t, Num: uint64(int64(int32(binary.BigEndian.Uint32(data))))}
	}
	return Value{Type: t, Num: binary.BigEndian.Uint64(data)}
}

// Iterator walks the properties of a record. Its slices point into the record.
type Iterator struct {
	// Type, Name and Data are the current property. Data does not include the stored length.
	Type Type
	Name []byte
	Data []byte

	tag  byte
	raw  []byte // the whole property as it is stored
	rest []byte
	bad  bool
}

// Properties returns an iterator that is before the first property. It is declared before the loop that uses it: a loop
// copies a variable that it declares itself once for each pass.
func (r Record) Properties() Iterator {
	if len(r) < recordHeader {
		return Iterator{bad: true}
	}
	return Iterator{rest: r[recordHeader:]}
}

// Next moves to the next property and reports whether there is one.
func (it *Iterator) Next() bool {
	b := it.rest
	if len(b) == 0 {
		return false
	}
	it.tag = b[0]
	it.Type = Type(it.tag & tagType)
	if it.Type == 0 || it.Type > lastType {
		return it.fail()
	}
	n, size := uvarint(b[1:])
	if size <= 0 || n > uint64(len(b)-1-size) {
		return it.fail()
	}
	at := 1 + size + int(n)
	it.Name = b[1+size : at : at]
	end := at + fixedSize[it.Type]
	if fixedSize[it.Type] < 0 {
		n, size := uvarint(b[at:])
		if size <= 0 || n > uint64(len(b)-at-size) {
			return it.fail()
		}
		at += size
		end = at + int(n)
	}
	if end > len(b) {
		return it.fail()
	}
	it.Data = b[at:end:end]
	it.raw, it.rest = b[:end], b[end:]
	return true
}

// uvarint is binary.Uvarint, faster for one byte, the common case.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

func (it *Iterator) fail() bool {
	it.bad, it.rest = true, nil
	return false
}

// Value returns the current property's value. Its Bytes point into the record.
func (it *Iterator) Value() Value { return valueOf(it.Type, it.Data) }

// Lookup returns a property by its name. ok is false if the entity does not have it.
func (r Record) Lookup(name string) (v Value, ok bool) {
	it := r.Properties()
	for it.Next() {
		if string(it.Name) == name {
			return it.Value(), true
		}
	}
	return Value{}, false
}

// Merge returns r with the properties of update: properties that r has keep their place, others are appended. The
// timestamp is that of update.
func (r Record) Merge(update Record) Record {
	out := NewRecord(update.Timestamp(), len(r)+len(update))
	it := r.Properties()
	for it.Next() {
		raw := it.raw
		up := update.Properties()
		for up.Next() {
			if string(up.Name) == string(it.Name) {
				raw = up.raw
				break
			}
		}
		out = append(out, raw...)
	}
	up := update.Properties()
	for up.Next() {
		if _, ok := r.Lookup(string(up.Name)); !ok {
			out = append(out, up.raw...)
		}
	}
	return out
}

// Sorted returns r with its properties sorted by name, by UTF-16 code units: r itself if they are sorted.
func (r Record) Sorted() Record {
	sorted := true
	var last []byte
	it := r.Properties()
	for ; it.Next() && sorted; last = it.Name {
		sorted = CompareStrings(last, it.Name) <= 0
	}
	if sorted {
		return r
	}
	var room [32]Iterator
	all := room[:0]
	it = r.Properties()
	for it.Next() {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b Iterator) int { return CompareStrings(a.Name, b.Name) })
	out := append(make(Record, 0, len(r)), r[:recordHeader]...)
	for i := range all {
		out = append(out, all[i].raw...)
	}
	return out
}

// errRecord is wrapped by the errors of CheckRecord.
var errRecord = errors.New("entity record is damaged")

// CheckRecord returns an error if b is not a valid record.
func CheckRecord(b []byte) error {
	r := Record(b)
	switch {
	case len(b) < recordHeader:
		return fmt.Errorf("%w: %d bytes", errRecord, len(b))
	case b[0] != recordVersion:
		return fmt.Errorf("%w: version %d", errRecord, b[0])
	case r.Timestamp() < 0 || r.Timestamp() > MaxTicks:
		return fmt.Errorf("%w: timestamp %d", errRecord, r.Timestamp())
	}
	seen := make(map[string]bool)
	it := r.Properties()
	for it.Next() {
		if seen[string(it.Name)] {
			return fmt.Errorf("%w: property %q occurs twice", errRecord, it.Name)
		}
		seen[string(it.Name)] = true
	}
	if it.bad {
		return fmt.Errorf("%w after %d properties", errRecord, len(seen))
	}
	return nil
}
