package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// byteOrderMark begins every XML document that Azure's Blob and Queue services send.
const byteOrderMark = "\xef\xbb\xbf"

// XML builds a document by appending, without reflection, since listings are long. Names are trusted, text is escaped.
type XML struct{ buf []byte }

// documents pools documents that were sent.
var documents = sync.Pool{New: func() any { return new(XML) }}

// maxPooled is the capacity in bytes up to which a document is kept.
const maxPooled = 64 << 10

// NewXML returns a document that begins with Azure's byte order mark and declaration. capacity is the expected size in
// bytes.
func NewXML(capacity int) *XML {
	x := documents.Get().(*XML)
	x.buf = slices.Grow(x.buf[:0], capacity)
	x.buf = append(x.buf, byteOrderMark+`<?xml version="1.0" encoding="utf-8"?>`...)
	return x
}

// Open writes a start tag with the given attributes, as name, value, name, value.
func (x *XML) Open(name string, attributes ...string) *XML {
	x.buf = append(x.buf, '<')
	x.buf = append(x.buf, name...)
	for i := 0; i+1 < len(attributes); i += 2 {
		x.buf = append(x.buf, ' ')
		x.buf = append(x.buf, attributes[i]...)
		x.buf = append(x.buf, `="`...)
		x.buf = appendEscaped(x.buf, attributes[i+1])
		x.buf = append(x.buf, '"')
	}
	x.buf = append(x.buf, '>')
	return x
}

// Close writes an end tag.
func (x *XML) Close(name string) *XML {
	x.buf = append(x.buf, "</"...)
	x.buf = append(x.buf, name...)
	x.buf = append(x.buf, '>')
	return x
}

// Text writes an element with text; an empty one as <name />, as Azure does.
func (x *XML) Text(name, value string) *XML {
	if value == "" {
		return x.Empty(name)
	}
	x.Open(name)
	x.buf = appendEscaped(x.buf, value)
	return x.Close(name)
}

// TextBytes is like [XML.Text].
func (x *XML) TextBytes(name string, value []byte) *XML {
	if len(value) == 0 {
		return x.Empty(name)
	}
	x.Open(name)
	// The texts of messages are long, and most of them need no escaping.
	if n := PlainPrefix(value); bytes.IndexByte(value[:n], '"') < 0 {
		x.buf, value = append(x.buf, value[:n]...), value[n:]
	}
	x.buf = appendEscaped(x.buf, value)
	return x.Close(name)
}

// Time writes an element with a time in the form of [FormatRFC1123].
func (x *XML) Time(name string, t time.Time) *XML { return x.Text(name, FormatRFC1123(t)) }

// Int writes an element with a decimal number.
func (x *XML) Int(name string, n int64) *XML {
	x.Open(name)
	x.buf = strconv.AppendInt(x.buf, n, 10)
	return x.Close(name)
}

// Bool writes an element with "true" or "false".
func (x *XML) Bool(name string, b bool) *XML { return x.Text(name, strconv.FormatBool(b)) }

// Quoted is [XML.Text] with apostrophes escaped as well, as Azure repeats the queries of Find Blobs by Tags.
func (x *XML) Quoted(name, value string) *XML {
	x.Open(name)
	x.buf = append(x.buf, strings.ReplaceAll(string(appendEscaped(nil, value)), "'", "&apos;")...)
	return x.Close(name)
}

// Empty writes <name />.
func (x *XML) Empty(name string) *XML {
	x.buf = append(x.buf, '<')
	x.buf = append(x.buf, name...)
	x.buf = append(x.buf, " />"...)
	return x
}

// Echo writes an element that repeats a parameter of the request; nothing if the parameter is empty.
func (x *XML) Echo(name, value string) *XML {
	if value == "" {
		return x
	}
	return x.Text(name, value)
}

// Metadata writes a Metadata element for listings of containers and queues.
func (x *XML) Metadata(list []Meta) *XML {
	if len(list) == 0 {
		return x.Empty("Metadata")
	}
	x.Open("Metadata")
	for _, m := range list {
		x.Text(m.Name, m.Value)
	}
	return x.Close("Metadata")
}

// Raw appends markup without escaping.
func (x *XML) Raw(s string) *XML { x.buf = append(x.buf, s...); return x }

// Bytes returns the document.
func (x *XML) Bytes() []byte { return x.buf }

// plainXML has the characters of ASCII that need no escaping.
var plainXML = func() (plain [utf8.RuneSelf]bool) {
	for c := range plain {
		plain[c] = c >= 0x20 && c != '<' && c != '>' && c != '&' && c != '"' || c == '\n' || c == '\t'
	}
	return plain
}()

// isPlainXML reports whether s is valid and needs no escaping.
func isPlainXML[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf {
			return isPlainUTF8(string(s[i:]))
		} else if !plainXML[c] {
			return false
		}
	}
	return true
}

func isPlainUTF8(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < utf8.RuneSelf && !plainXML[c] {
			return false
		}
	}
	return utf8.ValidString(s)
}

// appendEscaped escapes text for elements and attributes. Characters that XML cannot hold become U+FFFD.
func appendEscaped[T string | []byte](b []byte, text T) []byte {
	if isPlainXML(text) {
		return append(b, text...)
	}
	s := string(text)
	for _, c := range s {
		switch {
		case c == '<':
			b = append(b, "&lt;"...)
		case c == '>':
			b = append(b, "&gt;"...)
		case c == '&':
			b = append(b, "&amp;"...)
		case c == '"':
			b = append(b, "&quot;"...)
		// A parser would read CR as LF; as a character reference it stays.
		case c == '\r':
			b = append(b, "&#xD;"...)
		case c < 0x20 && c != '\n' && c != '\t':
			b = utf8.AppendRune(b, utf8.RuneError)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return b
}
