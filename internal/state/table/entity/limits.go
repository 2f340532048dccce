package entity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The limits of the data model.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
const (
	maxKeyUnits    = 512      // 1 KiB of UTF-16 for PartitionKey and for RowKey
	maxNameUnits   = 255      // characters of a property name
	maxProperties  = 252      // beside PartitionKey, RowKey and Timestamp
	maxStringUnits = 32 << 10 // 64 KiB of UTF-16
	maxBinaryBytes = 64 << 10 // 64 KiB
	maxEntityBytes = 1 << 20  // by the formula of CheckSize

	// MinTicks is 1601-01-01T00:00:00Z, the earliest DateTime that may be stored.
	MinTicks ticks.Ticks = 504_911_232_000_000_000
	// MaxTicks is 9999-12-31T23:59:59.9999999Z, the latest.
	MaxTicks ticks.Ticks = 3_155_378_975_999_999_999
)

// CheckKey returns an error if s cannot be a PartitionKey or a RowKey. A key has at most 512 UTF-16 code units, without
// "/", "\", "#", "?", and the control characters U+0000 to U+001F and U+007F to U+009F.
func CheckKey[S string | []byte](s S) *Error {
	units := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7F || c == '/' || c == '\\' || c == '#' || c == '?' {
				return ErrOutOfRange
			}
			i++
			units++
			continue
		}
		// At most four bytes become a string, which the compiler keeps off the heap.
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r <= 0x9F || r == utf8.RuneError && size == 1 {
			return ErrOutOfRange
		}
		i += size
		units++
		if r > 0xFFFF {
			units++
		}
	}
	// After the characters: a long key with a forbidden character is OutOfRangeInput.
	if units > maxKeyUnits {
		return ErrKeyTooLarge
	}
	return nil
}

// TableName reports whether a table may have the name s: ^[A-Za-z][A-Za-z0-9]{2,62}$. It does not check reserved names.
func TableName(s string) bool {
	if len(s) < 3 || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

// AnalyticsTable reports whether a name is one of Storage Analytics' tables. They are hidden from lists, and only the
// system itself creates and fills them.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema
func AnalyticsTable(name string) bool {
	return len(name) > 8 && strings.EqualFold(name[:8], "$Metrics") && TableName(name[1:])
}

// Rules are the rules that depend on the version of a request.
type Rules struct {
	// Dash allows "-" in property names, as versions before 2009-04-14 did.
	Dash bool
	// Room is memory for the record: it is used beyond its length if its capacity suffices. It may be nil.
	Room []byte
}

// checkName returns an error if a property cannot have the name. A name has at most 255 characters and is a C#
// identifier.
func checkName(name []byte, rules Rules) *Error {
	if plainName(name) {
		return nil
	}
	units := 0
	for i, c := range string(name) {
		units++
		if c > 0xFFFF {
			units++
		}
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_':
		case c >= '0' && c <= '9':
			if i == 0 {
				return ErrPropertyName
			}
		case c == '-' && rules.Dash && i > 0:
		case c < utf8.RuneSelf || c == utf8.RuneError:
			return ErrPropertyName
		case unicode.IsLetter(c) || unicode.Is(unicode.Nl, c):
		case i > 0 && unicode.In(c, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Cf):
		default:
			return ErrPropertyName
		}
	}
	switch {
	case units == 0:
		return ErrPropertyName
	case units > maxNameUnits:
		return ErrPropertyNameTooLong
	}
	return nil
}

// plainName reports whether a name is a usual one: ASCII letters, digits and underscores, and valid in every version.
func plainName(name []byte) bool {
	if len(name) == 0 || len(name) > maxNameUnits || name[0] <= '9' {
		return false
	}
	for _, c := range name {
		if letter := c | 0x20; (letter < 'a' || letter > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// utf16Len counts the UTF-16 code units of UTF-8 text.
func utf16Len(s []byte) int {
	n := 0
	for _, c := range s {
		if c < 0x80 || c >= 0xC0 { // not a continuation byte: one character
			n++
		}
		if c >= 0xF0 { // it takes a pair
			n++
		}
	}
	return n
}

// Sizes that the formula gives to the parts of an entity.
// https://learn.microsoft.com/archive/blogs/avkashchauhan/how-the-size-of-an-entity-is-caclulated-in-windows-azure-table-storage
const (
	entityOverhead   = 4
	propertyOverhead = 8
	lengthOverhead   = 4 // of a string or binary value
)

// valueSize returns the contribution of a value to the size of its entity.
func valueSize(t Type, data []byte) int {
	switch t {
	case String:
		return 2*utf16Len(data) + lengthOverhead
	case Binary:
		return len(data) + lengthOverhead
	case Boolean:
		return 1
	case GUID:
		return 16
	case Int32:
		return 4
	}
	return 8
}

// CheckSize returns an error if an entity exceeds the limits on the number of its properties or on its size:
// 4 + 2 x (PartitionKey + RowKey) + the sum over the properties of 8 + 2 x name + value.
func CheckSize(partition, row []byte, r Record) *Error {
	if len(r) < maxProperties*4 { // a property has at least 4 bytes: neither limit can be exceeded
		return nil
	}
	n := 0
	it := r.Properties()
	for it.Next() {
		n++
	}
	if n > maxProperties {
		return ErrTooManyProperties
	}
	// Texts have at most as many characters as bytes, so most entities need not be counted.
	if entityOverhead+2*(len(partition)+len(row)+len(r))+n*(propertyOverhead+lengthOverhead) <= maxEntityBytes {
		return nil
	}
	size := entityOverhead + 2*utf16Len(partition) + 2*utf16Len(row)
	it = r.Properties()
	for it.Next() {
		size += propertyOverhead + 2*utf16Len(it.Name) + valueSize(it.Type, it.Data)
	}
	if size > maxEntityBytes {
		return ErrEntityTooLarge
	}
	return nil
}
