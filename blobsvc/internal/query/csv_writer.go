package query

import "bytes"

// writer makes a result of records. It appends to what it is given.
type writer interface {
	// begin comes before the first record. names are the columns, as far as they are known; nil for SELECT *.
	begin(out []byte, names []string) []byte
	// all writes the whole of a record, values some computed values with the names of begin.
	all(out []byte, r record) ([]byte, error)
	values(out []byte, v []value) ([]byte, error)
	// flush writes what was held back, when some output is due or all is done; end is the last.
	flush(out []byte, end bool) ([]byte, error)
}

// csvWriter writes delimited text.
type csvWriter struct {
	Delimited
	// special has the bytes that may need quotes.
	special [256]bool
	text    []byte
	headed  bool // the header was written, or is not wanted
	// out and n are where all is: what was written and how many columns. name and next are made once, for records to call.
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
	if !w.headed { // the names of SELECT * are those of the first record
		w.headed = true
		var err error
		if out, err = w.each(out, r, w.name); err != nil {
			return out, err
		}
	}
	return w.each(out, r, w.next)
}

// each writes a line with what fn writes for every column.
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

// quote writes b, in quotes if it has anything in it that would be taken for something else.
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

// ambiguous reports whether b has a separator, quote, escape or line break in it.
func (w *csvWriter) ambiguous(b []byte) bool {
	return bytes.Contains(b, []byte(w.Column)) || bytes.Contains(b, []byte(w.Record)) || bytes.ContainsAny(b, "\r\n") ||
		w.Quote != 0 && bytes.IndexByte(b, w.Quote) >= 0 || w.Escape != 0 && bytes.IndexByte(b, w.Escape) >= 0
}

// escape writes b where there are no quotes: with the escape character, or as it is if none exists.
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
