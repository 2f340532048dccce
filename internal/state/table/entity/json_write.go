package entity

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Metadata is the amount of metadata in a JSON answer.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
type Metadata uint8

// The metadata levels of JSON.
const (
	NoMetadata      Metadata = iota // data only
	MinimalMetadata                 // types where JSON has none, and entity tags
	FullMetadata                    // and type names, ids and edit links
)

// String returns the level as media types have it.
func (m Metadata) String() string {
	switch m {
	case NoMetadata:
		return "nometadata"
	case MinimalMetadata:
		return "minimalmetadata"
	}
	return "fullmetadata"
}

// Form describes how entities of one table are rendered for one request.
type Form struct {
	Metadata Metadata
	// Base is the address of the service without a trailing slash, Account and Table are the names in the answer.
	Base, Account, Table string
	// Select lists the properties to render, in order; nil means all that an entity has.
	Select []string
	// HasSelect says that there was a $select, SelectText is its text: both are part of the context address. An empty
	// one selects everything.
	HasSelect  bool
	SelectText string
	// Now is the time at which the answer is made, for Atom.
	Now time.Time
}

// AppendJSONEntity renders one entity as an element of a list. partition and row are UTF-8.
func (f *Form) AppendJSONEntity(dst, partition, row []byte, r Record) []byte {
	return f.appendMembers(append(dst, '{'), partition, row, r)
}

// AppendJSON appends the document of one entity.
func (f *Form) AppendJSON(dst, partition, row []byte, r Record) []byte {
	dst = append(dst, '{')
	if f.Metadata != NoMetadata {
		dst = f.appendContext(dst, "/@Element")
		dst = append(dst, ',')
	}
	return f.appendMembers(dst, partition, row, r)
}

// AppendJSONListStart begins an answer with a list of entities, which AppendJSONListEnd ends.
func (f *Form) AppendJSONListStart(dst []byte) []byte {
	dst = append(dst, '{')
	if f.Metadata != NoMetadata {
		dst = f.appendContext(dst, "")
		dst = append(dst, ',')
	}
	return append(dst, `"value":[`...)
}

// AppendJSONListEnd appends the end of a document that AppendJSONListStart began.
func (f *Form) AppendJSONListEnd(dst []byte) []byte { return append(dst, "]}"...) }

func (f *Form) appendContext(dst []byte, element string) []byte {
	dst = append(dst, `"odata.metadata":"`...)
	dst = appendEscaped(dst, f.Base)
	dst = append(dst, "/$metadata#"...)
	dst = append(dst, f.Table...)
	dst = append(dst, element...)
	if f.HasSelect {
		dst = append(dst, "&$select="...)
		dst = appendEscaped(dst, f.SelectText)
	}
	return append(dst, '"')
}

// appendMembers writes the members of an entity's object and closes it. At least one member follows an open brace or
// a comma.
func (f *Form) appendMembers(dst, partition, row []byte, r Record) []byte {
	// The time is written twice, in the ETag and as Timestamp, and formatted once.
	at := r.Timestamp().Text()
	if f.Metadata == FullMetadata {
		dst = append(dst, `"odata.type":"`...)
		dst = append(append(append(dst, f.Account...), '.'), f.Table...)
		dst = append(dst, `","odata.id":"`...)
		dst = appendEscaped(dst, f.Base)
		dst = append(dst, '/')
		dst = AppendAddress(dst, f.Table, partition, row)
		dst = append(dst, `",`...)
	}
	if f.Metadata != NoMetadata {
		dst = append(dst, `"odata.etag":"W/\"datetime'`...)
		dst = append(dst, at.Escaped()...)
		dst = append(dst, `'\"",`...)
	}
	if f.Metadata == FullMetadata {
		dst = append(dst, `"odata.editLink":"`...)
		dst = AppendAddress(dst, f.Table, partition, row)
		dst = append(dst, `",`...)
	}
	if f.Select == nil {
		dst = AppendQuoted(append(dst, `"PartitionKey":`...), partition)
		dst = AppendQuoted(append(dst, `,"RowKey":`...), row)
		dst = append(dst, ',')
		dst = f.appendTimestamp(dst, &at)
		it := r.Properties()
		for it.Next() {
			dst = append(dst, ',')
			dst = f.appendProperty(dst, &it)
		}
	} else {
		for _, name := range f.Select {
			dst = f.appendSelected(dst, name, partition, row, r, &at)
			dst = append(dst, ',')
		}
	}
	// Each selected property is followed by a comma, and so is the metadata. An empty selection without metadata leaves
	// the brace alone.
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// appendSelected writes a property that $select asks for, as null if the entity lacks it.
func (f *Form) appendSelected(dst []byte, name string, partition, row []byte, r Record, at *ticks.Text) []byte {
	switch name {
	case "PartitionKey":
		return AppendQuoted(append(dst, `"PartitionKey":`...), partition)
	case "RowKey":
		return AppendQuoted(append(dst, `"RowKey":`...), row)
	case "Timestamp":
		return f.appendTimestamp(dst, at)
	}
	it := r.Properties()
	for it.Next() {
		if string(it.Name) == name {
			return f.appendProperty(dst, &it)
		}
	}
	dst = append(dst, '"')
	dst = appendEscaped(dst, name)
	return append(dst, `":null`...)
}

func (f *Form) appendTimestamp(dst []byte, at *ticks.Text) []byte {
	if f.Metadata == FullMetadata {
		dst = append(dst, `"Timestamp@odata.type":"Edm.DateTime",`...)
	}
	dst = append(dst, `"Timestamp":"`...)
	dst = append(dst, at.Plain()...)
	return append(dst, '"')
}

func (f *Form) appendProperty(dst []byte, it *Iterator) []byte {
	if f.Metadata != NoMetadata && annotated(it.Type, it.Data) {
		dst = appendAnnotation(dst, it)
	}
	dst = append(appendName(dst, it), `":`...)
	return storedValue{typ: it.Type, plain: it.tag&tagPlainValue != 0, data: it.Data}.appendTo(dst)
}

// appendAnnotation writes the member that says the type of a property, with the comma after it.
func appendAnnotation(dst []byte, it *Iterator) []byte {
	dst = append(appendName(dst, it), `@odata.type":"`...)
	return append(append(dst, it.Type.String()...), `",`...)
}

// storedValue is the value of a property in a record.
type storedValue struct {
	typ Type
	// plain says that the text needs no escapes, which was found out when it was written: most are read more often.
	plain bool
	data  []byte
}

// appendTo writes the value in JSON.
func (v storedValue) appendTo(dst []byte) []byte {
	d := v.data
	switch v.typ {
	case String:
		dst = append(dst, '"')
		if v.plain {
			dst = append(dst, d...)
		} else {
			dst = appendEscaped(dst, d)
		}
		return append(dst, '"')
	case Boolean:
		if d[0] != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case Int32:
		return appendInt(dst, int64(int32(binary.BigEndian.Uint32(d))))
	case Double:
		if f := math.Float64frombits(binary.BigEndian.Uint64(d)); !finite(f) {
			dst = append(dst, '"')
			dst = AppendDouble(dst, f)
			return append(dst, '"')
		} else {
			return AppendDouble(dst, f)
		}
	}
	dst = append(dst, '"')
	dst = appendText(dst, v.typ, d)
	return append(dst, '"')
}

// annotated reports whether a value needs an annotation because JSON does not imply its type.
func annotated(t Type, data []byte) bool {
	switch t {
	case Int64, DateTime, GUID, Binary:
		return true
	case Double:
		return !finite(math.Float64frombits(binary.BigEndian.Uint64(data)))
	}
	return false
}

func appendName(dst []byte, it *Iterator) []byte {
	dst = append(dst, '"')
	if it.tag&tagPlainName != 0 {
		return append(dst, it.Name...)
	}
	return appendEscaped(dst, it.Name)
}

// appendText writes a value as text, without quotes or escapes: the form of XML, and of JSON where it is a string.
func appendText(dst []byte, t Type, data []byte) []byte {
	switch t {
	case String:
		return append(dst, data...)
	case Binary:
		return base64.StdEncoding.AppendEncode(dst, data)
	case Boolean:
		return strconv.AppendBool(dst, data[0] != 0)
	case GUID:
		return AppendGUID(dst, data)
	case Int32:
		return appendInt(dst, int64(int32(binary.BigEndian.Uint32(data))))
	}
	n := binary.BigEndian.Uint64(data)
	switch t {
	case DateTime:
		return ticks.Ticks(n).Append(dst)
	case Double:
		return AppendDouble(dst, math.Float64frombits(n))
	}
	return appendInt(dst, int64(n))
}

// appendInt writes n in decimal. Most numbers are short, and those take a third of the time that strconv needs.
func appendInt(dst []byte, n int64) []byte {
	const digits = "0001020304050607080910111213141516171819" + "2021222324252627282930313233343536373839" +
		"4041424344454647484950515253545556575859" +
		"6061626364656667686970717273747576777879" + "8081828384858687888990919293949596979899"
	switch {
	case n < 0 || n >= 1_000_000:
		return strconv.AppendInt(dst, n, 10)
	case n < 10:
		return append(dst, byte('0'+n))
	case n < 100:
		return append(dst, digits[2*n], digits[2*n+1])
	}
	a, b, c := n/10_000, n/100%100, n%100
	switch {
	case n < 1000:
		return append(dst, byte('0'+b), digits[2*c], digits[2*c+1])
	case n < 10_000:
		return append(dst, digits[2*b], digits[2*b+1], digits[2*c], digits[2*c+1])
	case n < 100_000:
		return append(dst, byte('0'+a), digits[2*b], digits[2*b+1], digits[2*c], digits[2*c+1])
	}
	return append(dst, digits[2*a], digits[2*a+1], digits[2*b], digits[2*b+1], digits[2*c], digits[2*c+1])
}

func finite(f float64) bool { return f-f == 0 }

// AppendDouble writes f as Azure does: the 15 digits that most doubles need, 17 where they do not suffice, always
// with a decimal point or an exponent; "NaN", "Infinity", "-Infinity".
func AppendDouble(dst []byte, f float64) []byte {
	switch {
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0.0"...)
		}
		return append(dst, "0.0"...)
	case f == math.Trunc(f) && math.Abs(f) < 1e15: // whole numbers, without the search for digits
		dst = appendInt(dst, int64(f))
		return append(dst, ".0"...)
	}
	// Like the whole numbers above, these need no search for the shortest digits, which is by far the slowest step.
	if n, ok := decimals(f); ok {
		return appendDecimals(dst, n)
	}
	var buf [32]byte
	// The shortest text that reads back as f. If it has 15 digits at most, f written with 15 is the same: that many digits
	// always survive the way to a double and back, but for the smallest numbers.
	precision := 15
	d := strconv.AppendFloat(buf[:0], f, 'e', -1, 64)
	switch {
	// Numbers this small have fewer digits than 15, so that the shortest text says nothing about the text with 15.
	case math.Abs(f) < smallestNormal:
		d = strconv.AppendFloat(buf[:0], f, 'e', precision-1, 64)
		if back, err := strconv.ParseFloat(string(d), 64); err == nil && back == f {
			break
		}
		fallthrough
	case mantissaDigits(d) > precision:
		precision = 17
		d = strconv.AppendFloat(buf[:0], f, 'e', precision-1, 64)
	}
	return appendGeneral(dst, d, precision)
}

// decimalUnit is the number of units of the fourth decimal in 1.
const decimalUnit = 10_000

// decimals returns f in units of its fourth decimal, if it is the double that is nearest to that number of units: the
// common case of amounts and measurements. Then these are its digits, because no two numbers of 15 digits have the same
// nearest double.
func decimals(f float64) (n int64, ok bool) {
	if f > 1e10 || f < -1e10 {
		return 0, false
	}
	n = int64(math.Round(f * decimalUnit))
	return n, n != 0 && float64(n)/decimalUnit == f
}

// appendDecimals writes a number of units of the fourth decimal, without trailing zeros. At least one decimal is not
// zero.
func appendDecimals(dst []byte, n int64) []byte {
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	dst = appendInt(dst, n/decimalUnit)
	rest := n % decimalUnit
	dst = append(dst, '.', byte('0'+rest/1000), byte('0'+rest/100%10), byte('0'+rest/10%10), byte('0'+rest%10))
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// smallestNormal is the smallest double with all of its digits.
const smallestNormal = 0x1p-1022

// mantissaDigits counts the digits of a text of the form -1.234e-05.
func mantissaDigits(d []byte) int {
	n := bytes.IndexByte(d, 'e')
	if d[0] == '-' {
		n--
	}
	return max(n-1, 1)
}

// appendGeneral turns d, of the form -1.2340000e-05 or 1e-05, into the shorter of fixed and exponential notation by the
// rule of .NET: fixed if the exponent is over -5 and under the precision.
func appendGeneral(dst, d []byte, precision int) []byte {
	if d[0] == '-' {
		dst, d = append(dst, '-'), d[1:]
	}
	e := len(d) - 1
	for d[e] != 'e' {
		e--
	}
	exponent, _ := strconv.Atoi(string(d[e+1:]))
	// The exponent was read before this: the digits move within d, over the point.
	digits := d[:1]
	if e > 1 {
		digits = append(digits, d[2:e]...) // without the point
	}
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	switch {
	case exponent <= -5 || exponent >= precision:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(dst, '.')
			dst = append(dst, digits[1:]...)
		}
		dst = append(dst, 'E')
		if exponent < 0 {
			dst, exponent = append(dst, '-'), -exponent
		} else {
			dst = append(dst, '+')
		}
		if exponent < 10 {
			dst = append(dst, '0')
		}
		return strconv.AppendInt(dst, int64(exponent), 10)
	case exponent < 0:
		dst = append(dst, "0."...)
		for ; exponent < -1; exponent++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	for i, c := range digits {
		if i == exponent+1 {
			dst = append(dst, '.')
		}
		dst = append(dst, c)
	}
	for i := len(digits); i <= exponent; i++ {
		dst = append(dst, '0')
	}
	if len(digits) <= exponent+1 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// plain reports whether text needs no escapes in JSON: printable ASCII without quote and backslash.
func plain(s []byte) bool {
	for len(s) >= 8 {
		if w := binary.LittleEndian.Uint64(s); special(w)|w&highBits != 0 {
			return false
		}
		s = s[8:]
	}
	for _, c := range s {
		if c < 0x20 || c > 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x80 * lowBits
)

// special looks at eight characters at once: the lowest set bit is the highest of the first character that is a quote,
// a backslash or below U+0020. The result is 0 if none is.
func special(w uint64) uint64 {
	quote, backslash := w^'"'*lowBits, w^'\\'*lowBits
	return ((quote-lowBits)&^quote | (backslash-lowBits)&^backslash | (w-0x20*lowBits)&^w) & highBits
}

// AppendQuoted writes UTF-8 text as a JSON string of ASCII.
func AppendQuoted[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped writes UTF-8 text as Azure writes JSON: ASCII only, everything else as \uXXXX.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	// s[start:i] needs no escapes and is not written yet: plain text is copied in runs, not by bytes.
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		size := 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r > 0xFFFF { // JSON has UTF-16 code units: a surrogate pair
				r -= 0x10000
				dst = appendUnit(dst, 0xD800+r>>10)
				r = 0xDC00 + r&0x3FF
			}
			dst = appendUnit(dst, r)
		}
		i += size
		start = i
	}
	return append(dst, s[start:]...)
}

func appendUnit(dst []byte, unit rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[unit>>12&15], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}

// AppendAddress writes the relative address of an entity: Table(PartitionKey='p',RowKey='r').
func AppendAddress(dst []byte, table string, partition, row []byte) []byte {
	dst = append(dst, table...)
	dst = append(dst, "(PartitionKey='"...)
	dst = appendURI(dst, partition)
	dst = append(dst, "',RowKey='"...)
	dst = appendURI(dst, row)
	return append(dst, "')"...)
}

// appendURI writes a key for an address: quotes doubled, and percent-encoded but for letters, digits and -_.~!*'().
func appendURI(dst, s []byte) []byte {
	const hex = "0123456789ABCDEF"
	start := 0 // of those that are written as they are
	for i, c := range s {
		if plainInURI[c] {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if c == '\'' {
			dst = append(dst, "''"...)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, s[start:]...)
}

// plainInURI has the characters that appendURI writes as they are.
var plainInURI = func() (plain [256]bool) {
	for _, c := range "-_.~!*()abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" {
		plain[c] = true
	}
	return plain
}()
