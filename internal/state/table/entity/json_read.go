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
	for i := range members {
		m := &members[i]
		if m.annotation {
			continue
		}
		if string(m.name) == "Timestamp" { // clients send any value, even the year 1
			m.kind = jsonNull
		}
		v, null, err := m.value(findAnnotation(members, i), b.scratch[:0])
		if err != nil {
			return Parsed{}, err
		}
		if null {
			err = b.null(m.name)
		} else {
			err = b.add(m.name, v.Type, v.data)
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
	for j := range members {
		if m := &members[(i+1+j)%len(members)]; m.annotation && bytes.Equal(m.name, name) {
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
}

// value converts a member to the declared type, or to the type that JSON implies. It appends numbers to buf.
func (m *member) value(declared, buf []byte) (v scanned, null bool, err error) {
	if m.kind == jsonNull {
		return v, true, nil
	}
	var t Type
	if declared != nil {
		var ok bool
		if t, ok = typeByName(declared); !ok {
			return v, false, ErrInvalidInput
		}
	} else {
		t = m.implied()
	}
	data, err := m.convert(t, buf)
	return scanned{t, data}, false, err
}

func (m *member) implied() Type {
	switch m.kind {
	case jsonString:
		return String
	case jsonNumber:
		// A whole number beyond Int32 is a Double, as on Azure: an Int64 has to say so.
		if _, err := strconv.ParseInt(string(m.text), 10, 32); err == nil {
			return Int32
		}
		return Double
	}
	return Boolean
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
	parsed  Parsed
	rules   Rules
	count   int
	scratch [16]byte
	seen    uint8 // keys and Timestamp that occurred in the body, null or not
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

// system handles the three system properties. handled is false for all others.
func (b *builder) system(name []byte, t Type, data []byte, null bool) (handled bool, err error) {
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
		if err := CheckKey(data); err != nil {
			return true, err
		}
		if *key = data; !b.keysStay {
			*key = append(make([]byte, 0, len(data)), data...)
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

// add adds a property whose value has its stored form.
func (b *builder) add(name []byte, t Type, data []byte) error {
	if handled, err := b.system(name, t, data, false); handled {
		return err
	}
	if err := checkName(name, b.rules); err != nil {
		return err
	}
	// A look through the record costs less than a map for the usual number of properties, and at most 252 squared.
	it := b.parsed.Record.Properties()
	for it.Next() {
		if len(it.Name) == len(name) && string(it.Name) == string(name) {
			return ErrDuplicateProperties
		}
	}
	// The record never has more properties than may be stored, so that the look through it above stays short.
	if b.count++; b.count > maxProperties {
		return ErrTooManyProperties
	}
	b.parsed.Record = b.parsed.Record.appendProperty(t, name, data)
	return nil
}

func (b *builder) done() (Parsed, error) {
	if err := CheckSize(b.parsed.PartitionKey, b.parsed.RowKey, b.parsed.Record); err != nil {
		return Parsed{}, err
	}
	// What is appended to the record later must not write into the rest of rules.Room.
	b.parsed.Record = slices.Clip(b.parsed.Record)
	return b.parsed, nil
}
