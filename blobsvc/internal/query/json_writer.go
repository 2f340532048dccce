package query

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// jsonWriter writes an object for each record, followed by the record separator. Missing values are omitted.
type jsonWriter struct {
	separator string
	names     [][]byte // of the columns, with quotes and colon
	text      []byte
	compact   bytes.Buffer
	// out and n are the state of all; next is its closure.
	out  []byte
	n    int
	next func(name []byte, v value)
}

func (w *jsonWriter) begin(out []byte, names []string) []byte {
	for _, n := range names {
		w.names = append(w.names, append(AppendJSON(nil, n), ':'))
	}
	return out
}

func (w *jsonWriter) all(out []byte, r record) ([]byte, error) {
	if w.next == nil { // closure, made once
		w.next = func(name []byte, v value) {
			if w.n++; w.n > 1 {
				w.out = append(w.out, ',')
			}
			if name == nil {
				name = ordinalName(w.n)
			}
			w.out = append(AppendJSON(w.out, name), ':')
			w.out = w.value(w.out, v)
		}
	}
	w.out, w.n = append(out, '{'), 0
	err := r.all(w.next)
	return append(append(w.out, '}'), w.separator...), err
}

func (w *jsonWriter) values(out []byte, list []value) ([]byte, error) {
	out = append(out, '{')
	first := true
	for i, v := range list {
		if v.kind == missing {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, w.names[i]...)
		out = w.value(out, v)
	}
	return append(append(out, '}'), w.separator...), nil
}

func (w *jsonWriter) value(out []byte, v value) []byte {
	switch v.kind {
	case missing, null:
		return append(out, "null"...)
	case boolean, integer, float:
		return v.appendText(out)
	case tree:
		w.compact.Reset()
		if json.Compact(&w.compact, v.b) != nil {
			return append(out, "null"...)
		}
		return append(out, w.compact.Bytes()...)
	case text:
		return AppendJSON(out, v.b)
	}
	w.text = v.appendText(w.text[:0])
	return AppendJSON(out, w.text)
}

func (w *jsonWriter) held() int { return 0 }

func (w *jsonWriter) flush(out []byte, _ bool) ([]byte, error) { return out, nil }

const hex = "0123456789abcdef"

// AppendJSON appends b as a string of JSON. Bytes that are not UTF-8 become U+FFFD.
func AppendJSON[S string | []byte](out []byte, b S) []byte {
	out = append(out, '"')
	// Text that needs no escape is copied in one piece; from is where the piece begins.
	from := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(b[i:min(i+utf8.UTFMax, len(b))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			out = append(append(out, b[from:i]...), "\ufffd"...)
			i++
			from = i
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		out = append(out, b[from:i]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(out, b[from:]...), '"')
}
