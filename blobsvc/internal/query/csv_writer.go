package query

import "bytes"

// writer formats the result. Its methods append to the given slice.
type writer interface {
	// begin is called before the first record. names are the column names; nil for SELECT *.
	begin(out []byte, names []string) []byte
	// all writes all columns of a record; values writes computed values, named by begin.
	all(out []byte, r record) ([]byte, error)
	values(out []byte, v []value) ([]byte, error)
	// flush writes buffered output. end is set in the last call.
	flush(out []byte, end bool) ([]byte, error)
	// held is the size in bytes of the records that flush would write.
	held() int
}

// csvWriter writes delimited text.
type csvWriter struct {
	Delimited
	// special contains the bytes that may need quotes.
	special [256]bool
	text    []byte
	headed  bool // the header has been written, or is disabled
	// out and n are the state of all: the output and the number of columns. name and next are closures, made once.
	out        []byte
	n          int
	name, next func(name []byte, v value)
}

func newCSVWriter(d Delimited) *csvWriter {
	w := &csvWriter{Delimited: d, headed: !d.Headers}
	for _, c := range []byte{d.Column[0], d.Record[0], d.Quote, d.Escape, '\r', '\n'} {
		w.special[c] = true
	}
	w.name = func(name []byte, _ value) {
		w.out = w.column(w.out, w.n)
		if w.n++; name == nil {
			name = ordinalName(w.n)
		}
		w.out = w.quote(w.out, name)
	}
	w.next = func(_ []byte, v value) {
		w.out = w.column(w.out, w.n)
		w.n++
		w.out = w.value(w.out, v)
	}
	return w
}

func (w *csvWriter) held() int { return 0 }

func (w *csvWriter) begin(out []byte, names []string) []byte {
	if names == nil || w.headed {
		return out
	}
	w.headed = true
	for i, n := range names {
		out = w.column(out, i)
		out = w.quote(out, []byte(n))
	}
	return append(out, w.Record...)
}

// column writes the separator before column i.
func (w *csvWriter) column(out []byte, i int) []byte {
	if i > 0 {
		out = append(out, w.Column...)
	}
	return out
}

func (w *csvWriter) all(out []byte, r record) ([]byte, error) {
	if !w.headed { // the first record determines the names of SELECT *
		w.headed = true
		var err error
		if out, err = w.each(out, r, w.name); err != nil {
			return out, err
		}
	}
	return w.each(out, r, w.next)
}

// each writes a line; fn writes each column.
func (w *csvWriter) each(out []byte, r record, fn func(name []byte, v value)) ([]byte, error) {
	w.out, w.n = out, 0
	err := r.all(fn)
	return append(w.out, w.Record...), err
}

func (w *csvWriter) values(out []byte, list []value) ([]byte, error) {
	for i, v := range list {
		out = w.column(out, i)
		out = w.value(out, v)
	}
	return append(out, w.Record...), nil
}

func (w *csvWriter) value(out []byte, v value) []byte {
	if v.kind == text {
		return w.quote(out, v.b)
	}
	w.text = v.appendText(w.text[:0])
	return w.quote(out, w.text)
}

// quote writes b, in quotes if it contains special characters.
func (w *csvWriter) quote(out, b []byte) []byte {
	i := 0
	for i < len(b) && !w.special[b[i]] {
		i++
	}
	if i == len(b) || !w.ambiguous(b[i:]) {
		return append(out, b...)
	}
	if w.Quote == 0 {
		return w.escape(out, b)
	}
	out = append(out, w.Quote)
	for _, c := range b {
		switch {
		case c == w.Quote && w.Escape != 0:
			out = append(out, w.Escape)
		case c == w.Quote, c == w.Escape && w.Escape != 0:
			out = append(out, c)
		}
		out = append(out, c)
	}
	return append(out, w.Quote)
}

// ambiguous reports whether b contains a separator, quote, escape or line break.
func (w *csvWriter) ambiguous(b []byte) bool {
	return bytes.Contains(b, []byte(w.Column)) || bytes.Contains(b, []byte(w.Record)) || bytes.ContainsAny(b, "\r\n") ||
		w.Quote != 0 && bytes.IndexByte(b, w.Quote) >= 0 || w.Escape != 0 && bytes.IndexByte(b, w.Escape) >= 0
}

// escape writes b without quotes: with the escape character, or unchanged if the format has none.
func (w *csvWriter) escape(out, b []byte) []byte {
	for _, c := range b {
		if w.Escape != 0 && w.special[c] {
			out = append(out, w.Escape)
		}
		out = append(out, c)
	}
	return out
}

func (w *csvWriter) flush(out []byte, _ bool) ([]byte, error) { return out, nil }
