package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// jsonReader reads a sequence of objects, or objects in arrays at the top level. Record separators and
// white space between them are optional. The statement's path selects rows within each object.
type jsonReader struct {
	window
	separator []byte
	from      []step

	within                 bool // an array at the top
	comma                  bool // expected before the next element
	element                bool // an element is expected, after a comma
	recordStart, recordEnd int64
	rows                   rows // of the object
	row                    jsonRow
}

func newJSONReader(src io.Reader, separator string, from []step, w *budget.Work) *jsonReader {
	return &jsonReader{window: window{src: src, work: w}, separator: []byte(separator), from: from, row: jsonRow{work: w}}
}

func (j *jsonReader) position() (at, end int64) { return j.recordStart, j.recordEnd }

func (j *jsonReader) open([]*field) error { return nil }

// next returns the next row. It returns io.EOF at the end.
func (j *jsonReader) next() (record, error) {
	for {
		raw, err := j.rows.next(j.work)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			object, err := j.value()
			if err != nil {
				return nil, err
			}
			if raw, err = j.rows.enter(object, j.from, j.work); err != nil {
				return nil, err
			}
		}
		if raw != nil {
			j.row.raw = raw
			return &j.row, nil
		}
	}
}

// value reads one object, or one element of an array at the top level.
func (j *jsonReader) value() ([]byte, error) {
	for {
		c, err := j.start()
		if err != nil {
			return nil, err
		}
		switch {
		case c == '[' && !j.within:
			j.within, j.comma, j.element = true, false, false
			j.window.start++
			continue
		case c == ']' && j.within && !j.element:
			j.within = false
			j.window.start++
			continue
		case c == ',' && j.within && j.comma:
			j.comma, j.element = false, true
			j.window.start++
			continue
		case j.within && j.comma:
			return nil, j.unexpected(0, "',', or ']'")
		case c != '{' && !j.within:
			return nil, j.scalar()
		}
		n, err := j.balance()
		if err != nil {
			return nil, err
		}
		// balance counts quotes and brackets only: what it delimits need not be JSON.
		raw := j.bytes()[:n]
		j.recordStart = j.offset()
		if !json.Valid(raw) {
			return nil, j.invalid(raw)
		}
		j.comma, j.element = true, false
		j.window.start += n
		j.recordEnd = j.offset()
		return raw, nil
	}
}

// start skips white space and separators and returns the first byte of the next value.
func (j *jsonReader) start() (byte, error) {
	for {
		b := j.bytes()
		for len(b) > 0 {
			switch {
			case b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r':
				b = b[1:]
				continue
			case !j.within && len(j.separator) > 0 && b[0] == j.separator[0] && bytes.HasPrefix(b, j.separator):
				b = b[len(j.separator):]
				continue
			case j.base == 0 && len(b) == j.end && bytes.HasPrefix(b, bom):
				b = b[len(bom):]
				continue
			}
			break
		}
		j.window.start = j.end - len(b)
		// Only a part of a separator or byte order mark may have been read.
		if len(b) >= max(len(j.separator), len(bom)) || len(b) > 0 && (j.eof || b[0] == '{' || b[0] == '[') {
			return b[0], nil
		}
		switch err := j.window.more(); {
		case err == io.EOF && len(b) > 0:
			return b[0], nil
		case err == io.EOF && j.within:
			return 0, parseError(j.offset(), "Unexpected end at [byte: %d]. Expecting tokens ',', or ']'.", j.offset())
		case err != nil:
			return 0, err
		}
	}
}

// balance returns the length of the next value.
func (j *jsonReader) balance() (int, error) {
	// The scan goes on after more has moved the bytes: i counts from the beginning of the value, and is past the end of
	// the bytes if an escape is cut in two.
	depth, quoted := 0, false
	for i := 0; ; {
		for b := j.bytes(); i < len(b); {
			if i > maxRecord {
				return 0, errRecordTooLong
			}
			switch ch := b[i]; {
			case quoted && ch == '\\':
				i++
			case ch == '"':
				quoted = !quoted
				if !quoted && depth == 0 {
					return i + 1, nil
				}
			case quoted:
			case ch == '{' || ch == '[':
				depth++
			case (ch == '}' || ch == ']' || ch == ',') && depth == 0:
				return max(i, 1), nil // the end of a scalar
			case ch == '}' || ch == ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			case depth == 0 && (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n'):
				return i, nil
			}
			i++
		}
		switch err := j.window.more(); {
		case err == io.EOF:
			return len(j.bytes()), nil
		case err != nil:
			return 0, err
		}
	}
}

// scalar returns the error for a top-level value that is neither an object nor an array: Azure reads a number to its
// end and reports the byte after it.
func (j *jsonReader) scalar() error {
	j.recordStart = j.offset()
	i := 0
	for i < 64 && strings.IndexByte("0123456789+-.eE", j.bytes()[i]) >= 0 {
		if i+1 == len(j.bytes()) {
			if err := j.window.more(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		i++
	}
	return j.unexpected(i, "'{', or '['")
}

// unexpected returns the error for the buffered byte i.
func (j *jsonReader) unexpected(i int, wanted string) error {
	return parseError(j.offset(), "Unexpected token '%c' at [byte: %d]. Expecting tokens %s.", rune(j.bytes()[i]),
		j.offset()+int64(i), wanted)
}

// invalid returns the error for raw, which is not JSON.
func (j *jsonReader) invalid(raw []byte) error {
	var any json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(raw, &any), &syntax) && syntax.Offset > 0 && int(syntax.Offset) <= len(raw) {
		i := int(syntax.Offset) - 1
		return parseError(j.offset(), "Unexpected token '%c' at [byte: %d].", rune(raw[i]), j.offset()+int64(i))
	}
	return parseError(j.offset(), "Unexpected end at [byte: %d].", j.offset()+int64(len(raw)))
}

// rows iterates over the rows that a path selects in one object, one at a time: there may be millions.
type rows struct{ arrays []array }

// array is an array in the path whose elements are rows or contain rows.
type array struct {
	rest []byte // from the next element on
	path []step // in each element
}

// next returns the next row, or nil at the end.
func (r *rows) next(w *budget.Work) ([]byte, error) {
	for len(r.arrays) > 0 {
		top := &r.arrays[len(r.arrays)-1]
		if top.rest[0] == ']' {
			r.arrays = r.arrays[:len(r.arrays)-1]
			continue
		}
		n := valueLength(top.rest)
		v, path := top.rest[:n], top.path
		if top.rest = blank(top.rest[n:]); top.rest[0] == ',' {
			top.rest = blank(top.rest[1:])
		}
		if err := w.Spend(n); err != nil {
			return nil, err
		}
		// enter may append to r.arrays, which moves them: top is not used after it.
		if row, err := r.enter(v, path, w); err != nil || row != nil {
			return row, err
		}
	}
	return nil, nil
}

// enter follows a path into raw, which is valid. It returns the selected row; nil if it does not exist, or if the path
// selects the elements of an array, which next returns.
func (r *rows) enter(raw []byte, path []step, w *budget.Work) ([]byte, error) {
	for i, s := range path {
		if err := w.Spend(len(raw)); err != nil {
			return nil, err
		}
		if s.name == "" && s.index == allElements {
			if raw[0] == '[' {
				r.arrays = append(r.arrays, array{blank(raw[1:]), path[i+1:]})
			}
			return nil, nil
		}
		var ok bool
		if raw, ok = s.follow(raw); !ok {
			return nil, nil
		}
	}
	return raw, nil
}

// follow follows one step of a path in raw.
func (s *step) follow(raw []byte) (found []byte, ok bool) {
	if s.name == "" {
		elements(raw, func(i int, v []byte) bool {
			if ok = i == s.index; ok {
				found = v
			}
			return !ok
		})
		return found, ok
	}
	members(raw, func(key, v []byte) bool {
		if string(key) == s.name || !s.exact && bytes.EqualFold(key, []byte(s.name)) {
			found, ok = v, true
		}
		return !ok
	})
	return found, ok
}

// members calls fn with the members of an object until fn returns false; elements does so with the elements of an
// array. raw is valid JSON, of any type.
func members(raw []byte, fn func(key, v []byte) bool) {
	if raw[0] != '{' {
		return
	}
	// The text is valid JSON: the brace that ends the loop comes before the bytes are over.
	for b := blank(raw[1:]); b[0] != '}'; {
		n := valueLength(b)
		key := unquoteJSON(b[:n])
		b = blank(b[n:])
		b = blank(b[1:]) // the colon
		n = valueLength(b)
		if !fn(key, b[:n]) {
			return
		}
		if b = blank(b[n:]); b[0] == ',' {
			b = blank(b[1:])
		}
	}
}

func elements(raw []byte, fn func(i int, v []byte) bool) {
	if raw[0] != '[' {
		return
	}
	i := 0
	for b := blank(raw[1:]); b[0] != ']'; i++ {
		n := valueLength(b)
		if !fn(i, b[:n]) {
			return
		}
		if b = blank(b[n:]); b[0] == ',' {
			b = blank(b[1:])
		}
	}
}

// blank skips white space.
func blank(b []byte) []byte {
	for b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r' {
		b = b[1:]
	}
	return b
}

// valueLength returns the length of the value at the start of b. More bytes may follow it.
func valueLength(b []byte) int {
	depth, quoted := 0, false
	// Only the end is looked for; the value is parsed if the query needs it. Brackets in a text do not count, and an
	// escaped quote does not end it.
	for i := 0; i < len(b); i++ {
		switch ch := b[i]; {
		case quoted && ch == '\\':
			i++
		case ch == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case ch == '{' || ch == '[':
			depth++
		case ch == '}' || ch == ']':
			// The bracket that ends the object around a number or a word.
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && (ch == ',' || ch == ':' || ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n'):
			return i
		}
	}
	return len(b)
}

// unquoteJSON returns the text of a string.
func unquoteJSON(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	return []byte(s)
}

// jsonValue returns the value of raw.
func jsonValue(raw []byte) value {
	switch raw[0] {
	case 'n':
		return nullValue
	case 't':
		return yes
	case 'f':
		return no
	case '"':
		return bytesValue(unquoteJSON(raw))
	case '{', '[':
		return value{kind: tree, b: raw}
	}
	v, ok := parseNumber(raw)
	if !ok { // too large for a number: keep it as text
		return bytesValue(raw)
	}
	v.b = raw
	return v
}

// jsonRow is an object, or the value at a path.
type jsonRow struct {
	raw  []byte
	work *budget.Work
}

func (r *jsonRow) field(f *field) (value, error) {
	if n, ok := f.ordinal(); ok && n == 0 && r.raw[0] != '{' {
		return jsonValue(r.raw), nil
	}
	v, ok := r.raw, true
	for i := range f.path {
		if err := r.work.Spend(len(v)); err != nil {
			return value{}, err
		}
		if v, ok = f.path[i].follow(v); !ok {
			return value{}, nil
		}
	}
	return jsonValue(v), nil
}

func (r *jsonRow) all(fn func(name []byte, v value)) error {
	if r.raw[0] != '{' {
		fn(nil, jsonValue(r.raw))
		return nil
	}
	members(r.raw, func(key, v []byte) bool {
		fn(key, jsonValue(v))
		return true
	})
	return nil
}
