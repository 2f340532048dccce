package entity

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Bounds of a body, so that no body costs more than its length.
const (
	maxMembers = 1000 // of the object: 255 properties, their annotations, and metadata
	maxDepth   = 16   // of values that are skipped
)

// scanObject parses one JSON object of scalar members, strictly by RFC 8259, with nothing after it. It skips members
// whose names begin with "odata.", whatever their values. Texts without escapes point into b.
func scanObject(b []byte, members []member) ([]member, error) {
	s := scanner{b: b}
	if !s.take('{') {
		return nil, ErrInvalidInput
	}
	// Each turn reads a name and a value, then a comma or the end: a comma before the end fails at the next name.
	for empty := s.take('}'); !empty; {
		name, ok := s.text()
		if !ok || !s.take(':') {
			return nil, ErrInvalidInput
		}
		if bytes.HasPrefix(name, []byte(metadataPrefix)) {
			// odata.etag, odata.metadata and others that a client sends back as it read them. Their values may be of
			// any form.
			ok = s.skip(0)
		} else {
			m := member{name: name}
			m.kind, m.text, ok = s.scalar()
			m.plain = s.plain
			if about, found := bytes.CutSuffix(name, []byte(typeSuffix)); found {
				m.name, m.annotation = about, true
				ok = ok && m.kind == jsonString
			}
			members = append(members, m)
		}
		switch {
		case !ok:
			return nil, ErrInvalidInput
		// Checked at each member: a body of 4 MiB with names of one letter would otherwise take ten times as much
		// memory.
		case len(members) > maxMembers:
			return nil, ErrTooManyProperties
		}
		if s.take(',') {
			continue
		}
		if s.take('}') {
			break
		}
		return nil, ErrInvalidInput
	}
	s.space()
	if s.i != len(s.b) {
		return nil, ErrInvalidInput
	}
	return members, nil
}

// ParseTableName parses the body of Create Table, {"TableName":"name"}. ok is false for any other body.
func ParseTableName(body []byte) (name string, ok bool) {
	if !utf8.Valid(body) {
		return "", false
	}
	members, err := scanObject(body, nil)
	if err != nil {
		return "", false
	}
	for i := range members {
		if m := &members[i]; !m.annotation && string(m.name) == "TableName" {
			if ok || m.kind != jsonString { // twice, or no text
				return "", false
			}
			name, ok = string(m.text), true
		}
	}
	return name, ok
}

// scanner reads JSON tokens. Every method skips white space before the token.
type scanner struct {
	b []byte
	i int
	// plain says that the last text needs no escapes in JSON. It is found out while the text is scanned, which saves a
	// pass over it.
	plain bool
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		if c := s.b[s.i]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return
		}
		s.i++
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// scalar reads a value that is neither an object nor an array.
func (s *scanner) scalar() (k kind, text []byte, ok bool) {
	switch s.peek() {
	case '"':
		text, ok = s.text()
		return jsonString, text, ok
	case 't':
		return jsonTrue, nil, s.word("true")
	case 'f':
		return jsonFalse, nil, s.word("false")
	case 'n':
		return jsonNull, nil, s.word("null")
	}
	text, ok = s.number()
	return jsonNumber, text, ok
}

// number reads by the grammar of JSON: no leading zeros, plus signs or bare points.
func (s *scanner) number() ([]byte, bool) {
	start := s.i
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return nil, false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return nil, false
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.b[start:s.i], true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// text reads a string and decodes its escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.i
	var high uint64 // has a bit above U+007F if one of the characters does
	// Eight bytes at a time are passed while none of them ends the text or needs a look. The loop below decides.
	for len(s.b)-s.i >= 8 {
		w := binary.LittleEndian.Uint64(s.b[s.i:])
		if found := special(w); found != 0 {
			first := bits.TrailingZeros64(found) / 8
			high |= w & (1<<(8*first) - 1) // those before the one that was found
			s.i += first
			break
		}
		high |= w
		s.i += 8
	}
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			s.plain = high&highBits == 0
			return s.b[start : s.i-1], true
		case c == '\\':
			text, ok := s.escaped(start)
			s.plain = plain(text)
			return text, ok
		case c < 0x20:
			return nil, false
		default:
			high |= uint64(c)
		}
	}
	return nil, false
}

// escaped scans the rest of a string from its first backslash.
func (s *scanner) escaped(start int) ([]byte, bool) {
	out := append(make([]byte, 0, s.i-start+64), s.b[start:s.i]...)
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			return out, true
		case c < 0x20:
			return nil, false
		case c != '\\':
			out = append(out, c)
			continue
		}
		if s.i == len(s.b) {
			return nil, false
		}
		c = s.b[s.i]
		s.i++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, ok := s.unit()
			if !ok {
				return nil, false
			}
			// The first half of a pair is joined with a second half that follows at once. Any other escape after it is a
			// character of its own, and is read again.
			if r >= 0xD800 && r < 0xDC00 && s.i+1 < len(s.b) && s.b[s.i] == '\\' && s.b[s.i+1] == 'u' {
				back := s.i
				s.i += 2
				lo, ok := s.unit()
				switch {
				case !ok:
					return nil, false
				case lo >= 0xDC00 && lo < 0xE000:
					r = 0x10000 + (r-0xD800)<<10 + (lo - 0xDC00)
				default:
					s.i = back
				}
			}
			out = utf8.AppendRune(out, r) // half a pair becomes U+FFFD
		default:
			return nil, false
		}
	}
	return nil, false
}

// unit reads four hexadecimal digits.
func (s *scanner) unit() (r rune, ok bool) {
	if len(s.b)-s.i < 4 {
		return 0, false
	}
	for range 4 {
		n, ok := nibble(s.b[s.i])
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(n)
		s.i++
	}
	return r, true
}

// skip passes over any value.
func (s *scanner) skip(depth int) bool {
	open := s.peek()
	if open != '{' && open != '[' {
		_, _, ok := s.scalar()
		return ok
	}
	if depth == maxDepth {
		return false
	}
	s.i++
	end := open + 2 // '{' and '}', '[' and ']' are two apart
	if s.take(end) {
		return true
	}
	for {
		if open == '{' {
			if _, ok := s.text(); !ok || !s.take(':') {
				return false
			}
		}
		if !s.skip(depth + 1) {
			return false
		}
		if s.take(end) {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}
