package query

import (
	"bytes"
	"io"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// Delimited is the format of delimited text.
type Delimited struct {
	// Column and Record are the separators of columns and records, at least one byte each.
	Column, Record string
	// Quote encloses fields that contain separators; inside, two quotes are one quote. Escape escapes the
	// character after it. 0 means no such character.
	Quote, Escape byte
	// Headers reports whether the first record contains the column names.
	Headers bool
}

// csvReader reads delimited text. It is also the current record. Only fields that need unquoting are copied.
// A carriage return before a record separator of a line feed belongs to the separator.
type csvReader struct {
	window
	Delimited
	column, record []byte
	names          []string // of the columns, if there is a header, and as bytes
	keys           [][]byte
	trimCR         bool

	recordStart, recordEnd int64 // offsets in the content; the separator counts
	// fields are the fields split so far, rest is the remainder of the record; unsplit reports whether rest contains a
	// field.
	fields  [][]byte
	rest    []byte
	unsplit bool
	plain   bool   // the record has neither quotes nor escapes
	spare   []byte // buffer for unquoted fields
}

func newCSVReader(src io.Reader, d Delimited, w *budget.Work) *csvReader {
	c := &csvReader{window: window{src: src, work: w}, Delimited: d, column: []byte(d.Column), record: []byte(d.Record)}
	c.trimCR = d.Record == "\n"
	return c
}

var bom = []byte("\xef\xbb\xbf")

// open reads the header, if the format has one, and resolves fields: by name if there is a header, otherwise by
// ordinal.
func (c *csvReader) open(fields []*field) error {
	if c.Headers {
		switch _, err := c.next(); {
		case err == io.EOF:
		case err != nil:
			return err
		default:
			if err := c.split(-1); err != nil {
				return err
			}
			for _, f := range c.fields {
				c.names = append(c.names, string(f))
				c.keys = append(c.keys, bytes.Clone(f))
			}
		}
	}
	for _, f := range fields {
		// Each field is compared with every name, and there can be many of both.
		if err := c.work.Spend(len(c.names)); err != nil {
			return err
		}
		if len(f.path) == 1 && f.resolve(c.names) {
			continue
		}
		n, ok := f.ordinal()
		switch {
		case ok:
			f.column = n
		case c.names == nil:
			return refuse("Column names can be used only if 'hasHeader' is set in the config and there is a header row.")
		default:
			return refuse("There is no column %s in the header row.", pathString(f.path))
		}
	}
	return nil
}

// pathString formats a path as in SQL.
func pathString(path []step) string {
	var b strings.Builder
	for i, s := range path {
		if i > 0 && s.name != "" {
			b.WriteByte('.')
		}
		if s.name == "" {
			b.WriteString("[]")
		}
		b.WriteString(s.name)
	}
	return b.String()
}

func (c *csvReader) position() (at, end int64) { return c.recordStart, c.recordEnd }

// next reads a record. It returns io.EOF at the end.
func (c *csvReader) next() (record, error) {
	// Only at the start of the blob: the same three bytes later are data.
	if c.window.base == 0 && c.window.start == 0 {
		for len(c.bytes()) < len(bom) {
			if err := c.window.more(); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
		}
		if bytes.HasPrefix(c.bytes(), bom) {
			c.window.start = len(bom)
		}
	}
	length, separator, err := c.find()
	if err != nil {
		return nil, err
	}
	c.recordStart = c.offset()
	c.rest = c.bytes()[:length]
	// With LF as separator, a CR before it is part of the line end that Windows programs write.
	if c.trimCR && length > 0 && separator > 0 && c.rest[length-1] == '\r' {
		c.rest = c.rest[:length-1]
	}
	// Fields are split when one is asked for: SELECT * and COUNT(*) do not need them.
	c.fields, c.spare, c.unsplit = c.fields[:0], c.spare[:0], true
	c.window.start += length + separator
	c.recordEnd = c.offset()
	return c, nil
}

// find returns the lengths of the next record and of the separator after it.
func (c *csvReader) find() (length, separator int, err error) {
	from := 0 // offset up to which separators have been searched
	for {
		b := c.bytes()
		i := -1
		if len(b) > from {
			i = index(b[from:], c.record)
		}
		if i >= 0 {
			i += from
		}
		// The beginning of a separator may be at the end of what was read: it is searched with the next bytes.
		if i < 0 && !c.eof {
			from = max(0, len(b)-len(c.record)+1)
		}
		if i < 0 && c.eof {
			i = len(b)
		}
		if i >= 0 {
			if i > maxRecord {
				return 0, 0, errRecordTooLong
			}
			c.plain = (c.Quote == 0 || bytes.IndexByte(b[:i], c.Quote) < 0) &&
				(c.Escape == 0 || bytes.IndexByte(b[:i], c.Escape) < 0)
			if c.plain {
				switch {
				case i < len(b):
					return i, len(c.record), nil
				case i == 0:
					return 0, 0, io.EOF
				}
				return i, 0, nil
			}
			n, sep, whole := c.scan(b)
			if n > maxRecord {
				return 0, 0, errRecordTooLong
			}
			if whole || c.eof {
				return n, sep, nil
			}
			from = n // separators within quotes do not count
		}
		if err := c.window.more(); err != nil && err != io.EOF {
			return 0, 0, err
		}
	}
}

// index is bytes.Index, faster for one byte.
func index(b, sep []byte) int {
	if len(sep) == 1 {
		return bytes.IndexByte(b, sep[0])
	}
	return bytes.Index(b, sep)
}

// scan finds the end of a record with quotes or escapes. whole is false if b ends before the record's separator.
func (c *csvReader) scan(b []byte) (length, separator int, whole bool) {
	within, begins := false, true // quotes; a field
	closed := -2                  // just after a closing quote, which a second quote turns into an escaped quote
	for i := 0; i < len(b); {
		ch := b[i]
		switch {
		case c.Escape != 0 && ch == c.Escape && ch != c.Quote:
			i += 2
			begins = false
			continue
		case within:
			if ch == c.Quote {
				within, closed = false, i
			}
		case c.Quote != 0 && ch == c.Quote && (begins || closed == i-1):
			within = true
		case ch == c.record[0] && bytes.HasPrefix(b[i:], c.record):
			return i, len(c.record), true
		case ch == c.column[0] && bytes.HasPrefix(b[i:], c.column):
			i += len(c.column)
			begins = true
			continue
		}
		begins = false
		i++
	}
	return len(b), 0, false
}

// maxCells is the maximum number of columns in a record. Each takes memory even if it is empty.
const maxCells = 100_000

// split splits the record until fields includes field n, or completely if n is -1. Errors: errTooManyColumns.
func (c *csvReader) split(n int) error {
	for c.unsplit && (n < 0 || len(c.fields) <= n) {
		if len(c.fields) == maxCells {
			return errTooManyColumns
		}
		if !c.plain {
			c.fields = append(c.fields, c.unquote())
			continue
		}
		if i := index(c.rest, c.column); i >= 0 {
			c.fields = append(c.fields, c.rest[:i])
			c.rest = c.rest[i+len(c.column):]
			continue
		}
		c.fields = append(c.fields, c.rest)
		c.unsplit = false
	}
	return nil
}

// unquote splits the next field off a record that has quotes or escapes.
func (c *csvReader) unquote() []byte {
	b := c.rest
	// The fields of a record follow each other in spare. If it grows, those before stay in the old memory and remain
	// valid.
	from := len(c.spare)
	within := false
	for i := 0; i < len(b); {
		ch := b[i]
		switch {
		case c.Escape != 0 && ch == c.Escape && ch != c.Quote:
			if i+1 < len(b) {
				c.spare = append(c.spare, b[i+1])
			}
			i += 2
			continue
		case within && ch == c.Quote:
			if i+1 < len(b) && b[i+1] == c.Quote {
				c.spare = append(c.spare, ch)
				i += 2
				continue
			}
			within = false
		case within:
			c.spare = append(c.spare, ch)
		case i == 0 && c.Quote != 0 && ch == c.Quote:
			within = true
		case ch == c.column[0] && bytes.HasPrefix(b[i:], c.column):
			c.rest = b[i+len(c.column):]
			return c.spare[from:len(c.spare):len(c.spare)]
		default:
			c.spare = append(c.spare, ch)
		}
		i++
	}
	c.unsplit = false
	return c.spare[from:len(c.spare):len(c.spare)]
}

func (c *csvReader) field(f *field) (value, error) {
	if err := c.split(f.column); err != nil {
		return value{}, err
	}
	if f.column >= len(c.fields) {
		return value{}, errColumn
	}
	return bytesValue(c.fields[f.column]), nil
}

func (c *csvReader) all(fn func(name []byte, v value)) error {
	if err := c.split(-1); err != nil {
		return err
	}
	for i, f := range c.fields {
		var name []byte
		if i < len(c.keys) {
			name = c.keys[i]
		}
		fn(name, bytesValue(f))
	}
	return nil
}
