package entity

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Parsed is an entity as a client sent it.
type Parsed struct {
	// PartitionKey and RowKey are UTF-8 and have passed [CheckKey]; nil where the body has none, or null.
	PartitionKey, RowKey []byte
	// Record has the properties; its Timestamp is 0. Null properties and the client's Timestamp are left out.
	Record Record
}

// ParseJSON parses an entity. The keys of the result may point into body; its record may be in rules.Room.
//
// The annotation "name@odata.type", before or after the property, gives its type. Without it the JSON does: text is a
// String, true and false are Booleans, a whole number that fits is an Int32, and any other number is a Double.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
func ParseJSON(body []byte, rules Rules) (Parsed, error) {
	// Keys and values go into the store as they are, and the order of keys is defined for UTF-8 only. One check of the
	// whole body saves one for each value.
	if !utf8.Valid(body) {
		return Parsed{}, ErrInvalidInput
	}
	// Most entities have fewer members: they are parsed without an allocation.
	var room [40]member
	members, err := scanObject(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), room[:0])
	if err != nil {
		return Parsed{}, err
	}
	// The record is about as long as the body, so that it seldom grows.
	b := newBuilder(len(body), rules)
	b.keysStay = true
	var scratch [16]byte // for numbers
	for i := range members {
		m := &members[i]
		if m.annotation {
			continue
		}
		if string(m.name) == "Timestamp" { // clients send any value, even the year 1
			m.kind = jsonNull
		}
		v, null, err := m.value(findAnnotation(members, i), scratch[:0])
		if err != nil {
			return Parsed{}, err
		}
		if null {
			err = b.null(m.name)
		} else {
			err = b.add(m.name, v, m.text)
		}
		if err != nil {
			return Parsed{}, err
		}
	}
	return b.done()
}

// typeSuffix ends the names of annotations.
const typeSuffix = "@odata.type"

// metadataPrefix is the prefix of members that are not properties, such as odata.etag.
const metadataPrefix = "odata."

// findAnnotation returns the declared type of member i, nil without a declaration. It first looks where most clients
// put it.
func findAnnotation(members []member, i int) []byte {
	name := members[i].name
	if i > 0 && members[i-1].annotation && bytes.Equal(members[i-1].name, name) {
		return members[i-1].text
	}
	if text := annotationOf(name, members[i+1:]); text != nil {
		return text
	}
	return annotationOf(name, members[:i])
}

// annotationOf returns the type that the first annotation of a name declares, nil without one.
func annotationOf(name []byte, members []member) []byte {
	for i := range members {
		if m := &members[i]; m.annotation && bytes.Equal(m.name, name) {
			return m.text
		}
	}
	return nil
}

// member is one name and value of the object.
type member struct {
	// name is the property's name; of an annotation, the name of the property that it is about.
	name       []byte
	annotation bool
	kind       kind
	// text is the decoded text of a string, or the digits of a number.
	text []byte
	// plain says that the text of a string needs no escapes in JSON.
	plain bool
}

type kind uint8

const (
	jsonNull kind = iota
	jsonTrue
	jsonFalse
	jsonNumber
	jsonString
)

// scanned is a value in its stored form.
type scanned struct {
	Type Type
	data []byte
	// plain says that a String needs no escapes in JSON.
	plain bool
}

// value converts a member to the declared type, or to the type that JSON implies. It appends numbers to buf.
func (m *member) value(declared, buf []byte) (v scanned, null bool, err error) {
	if m.kind == jsonNull {
		return v, true, nil
	}
	switch {
	case declared != nil:
		var ok bool
		if v.Type, ok = typeByName(declared); !ok {
			return v, false, ErrInvalidInput
		}
	case m.kind == jsonString:
		v.Type = String
	case m.kind == jsonNumber:
		// A whole number beyond Int32 is a Double, as on Azure: an Int64 has to say so.
		if n, err := strconv.ParseInt(string(m.text), 10, 32); err == nil {
			return scanned{Type: Int32, data: binary.BigEndian.AppendUint32(buf, uint32(n))}, false, nil
		}
		v.Type = Double
	default:
		v.Type = Boolean
	}
	v.data, err = m.convert(v.Type, buf)
	v.plain = v.Type == String && m.plain
	return v, false, err
}

func (m *member) convert(t Type, buf []byte) ([]byte, error) {
	switch m.kind {
	case jsonTrue, jsonFalse:
		if t != Boolean {
			return nil, ErrInvalidInput
		}
		if m.kind == jsonTrue {
			return append(buf, 1), nil
		}
		return append(buf, 0), nil
	case jsonNumber:
		if t != Int32 && t != Int64 && t != Double {
			return nil, ErrInvalidInput
		}
	}
	return parseText(t, m.text, buf)
}

// parseText parses the text form of a value, as in XML or in JSON strings, and returns its stored form: text itself for
// a String, else appended to buf. It checks the limits on single values.
func parseText(t Type, text, buf []byte) ([]byte, error) {
	switch t {
	case String:
		// UTF-16 has no more units than UTF-8 has bytes, so a short text need not be counted.
		if len(text) > maxStringUnits && utf16Len(text) > maxStringUnits {
			return nil, ErrPropertyTooLarge
		}
		return text, nil
	case Binary:
		b, err := base64.StdEncoding.AppendDecode(buf, text)
		switch {
		case err != nil:
			return nil, ErrInvalidInput
		case len(b) > maxBinaryBytes:
			return nil, ErrPropertyTooLarge
		}
		return b, nil
	case Boolean:
		switch string(text) {
		case "true", "True", "1":
			return append(buf, 1), nil
		case "false", "False", "0":
			return append(buf, 0), nil
		}
		return nil, ErrInvalidInput
	case DateTime:
		at, ok := ticks.Parse(string(text))
		switch {
		case !ok:
			return nil, ErrInvalidInput
		case at < MinTicks || at > MaxTicks:
			return nil, ErrOutOfRange
		}
		return binary.BigEndian.AppendUint64(buf, uint64(at)), nil
	case Double:
		f, ok := parseDouble(string(text))
		if !ok {
			return nil, ErrInvalidInput
		}
		return binary.BigEndian.AppendUint64(buf, math.Float64bits(f)), nil
	case GUID:
		g, ok := ParseGUID(text)
		if !ok {
			return nil, ErrInvalidInput
		}
		return append(buf, g[:]...), nil
	case Int32:
		n, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil {
			return nil, ErrInvalidInput
		}
		return binary.BigEndian.AppendUint32(buf, uint32(n)), nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return nil, ErrInvalidInput
	}
	return binary.BigEndian.AppendUint64(buf, uint64(n)), nil
}

// parseDouble parses a decimal number, NaN, or an infinity as JSON or XML spell it.
func parseDouble(s string) (float64, bool) {
	switch s {
	case "NaN":
		return math.NaN(), true
	case "Infinity", "INF":
		return math.Inf(1), true
	case "-Infinity", "-INF":
		return math.Inf(-1), true
	}
	for i := range len(s) { // strconv knows more forms than Azure: hexadecimal, underscores, "inf"
		if c := s[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// builder builds a record and enforces the rules on the names and the number of properties.
type builder struct {
	parsed Parsed
	rules  Rules
	count  int
	seen   uint8  // keys and Timestamp that occurred in the body, null or not
	names  uint64 // bits of the names of the properties so far, see nameBit
	// keysStay says that the memory of the values lasts as long as the result.
	keysStay bool
}

func newBuilder(room int, rules Rules) builder {
	return builder{rules: rules, parsed: Parsed{Record: newRecord(rules.Room, room)}}
}

const (
	seenPartition = 1 << iota
	seenRow
	seenTimestamp
)

// system handles the three system properties. handled is false for all others. text is that of a String.
func (b *builder) system(name []byte, t Type, text []byte, null bool) (handled bool, err error) {
	var bit uint8
	var key *[]byte
	switch string(name) {
	case "PartitionKey":
		bit, key = seenPartition, &b.parsed.PartitionKey
	case "RowKey":
		bit, key = seenRow, &b.parsed.RowKey
	case "Timestamp":
		bit = seenTimestamp
	default:
		return false, nil
	}
	switch {
	case b.seen&bit != 0:
		return true, ErrDuplicateProperties
	case key == nil, null:
	case t != String:
		return true, ErrPrimaryKeyType
	default:
		if err := CheckKey(text); err != nil {
			return true, err
		}
		if *key = text; !b.keysStay {
			*key = append(make([]byte, 0, len(text)), text...)
		}
	}
	b.seen |= bit
	return true, nil
}

// null adds a null property: it is not stored, but its name is checked.
func (b *builder) null(name []byte) error {
	if handled, err := b.system(name, 0, nil, true); handled {
		return err
	}
	if err := checkName(name, b.rules); err != nil {
		return err
	}
	return nil
}

// add adds a property whose value has its stored form. text is that of a String once more: keys refer to it, and the
// compiler could not keep the memory of other values on the stack if they seemed to refer to v.data.
func (b *builder) add(name []byte, v scanned, text []byte) error {
	if handled, err := b.system(name, v.Type, text, false); handled {
		return err
	}
	if err := checkName(name, b.rules); err != nil {
		return err
	}
	if bit := nameBit(name); b.names&bit == 0 {
		b.names |= bit
	} else if b.has(name) {
		return ErrDuplicateProperties
	}
	// The record never has more properties than may be stored, so that the look through it above stays short.
	if b.count++; b.count > maxProperties {
		return ErrTooManyProperties
	}
	b.parsed.Record = b.parsed.Record.appendProperty(name, v)
	return nil
}

// nameBit returns one of 64 bits for a name that is not empty. Most names of an entity have different ones, which shows
// without a comparison that they differ.
func nameBit(name []byte) uint64 {
	n := len(name)
	return 1 << ((n + int(name[0]) + 3*int(name[n-1]) + 5*int(name[n/2])) % 64)
}

// has reports whether the record has a property. A look through it costs less than a map for the usual number of
// properties, and at most 252 squared.
func (b *builder) has(name []byte) bool {
	it := b.parsed.Record.Properties()
	for it.Next() {
		if string(it.Name) == string(name) {
			return true
		}
	}
	return false
}

func (b *builder) done() (Parsed, error) {
	if err := CheckSize(b.parsed.PartitionKey, b.parsed.RowKey, b.parsed.Record); err != nil {
		return Parsed{}, err
	}
	// What is appended to the record later must not write into the rest of rules.Room.
	b.parsed.Record = slices.Clip(b.parsed.Record)
	return b.parsed, nil
}
