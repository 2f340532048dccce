package arrow

import "encoding/binary"

// Kind is the type of a column.
type Kind uint8

// The types of columns.
const (
	String Kind = iota
	Bool
	Int32
	Int64
	Uint64
	Double
	TimestampMillis // milliseconds since 1970 without a time zone
	TimestampMicros // microseconds
	Decimal         // 128 bits, with the field's precision and scale
	StringMap       // pairs of strings
)

// Field describes a column.
type Field struct {
	Name string
	Kind Kind
	// Precision and Scale are the digits of a Decimal, in all and behind the point.
	Precision, Scale int32
}

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// Writer gathers rows and encodes them.
type Writer struct {
	fields  []Field
	columns []*Column
	rows    int
}

// NewWriter returns a writer for these columns.
func NewWriter(fields []Field) *Writer {
	w := &Writer{fields: fields, columns: make([]*Column, len(fields))}
	for i, f := range fields {
		w.columns[i] = newColumn(f.Kind)
	}
	return w
}

// Column returns the column of field i.
func (w *Writer) Column(i int) *Column { return w.columns[i] }

// EndRow counts a row; columns without a value get null.
func (w *Writer) EndRow() {
	w.rows++
	for _, c := range w.columns {
		if c.rows < w.rows {
			c.null()
		}
	}
}

// Rows returns the number of rows that are not in a batch yet.
func (w *Writer) Rows() int { return w.rows }

// Size returns the length in bytes of the values that are not in a batch yet, about.
func (w *Writer) Size() int {
	n := 0
	for _, c := range w.columns {
		n += c.size()
	}
	return n
}

// AppendSchema appends the message that begins a stream, with metadata of the schema.
func (w *Writer) AppendSchema(out []byte, metadata []Pair) []byte {
	return appendMessage(out, schemaMessage(w.fields, metadata))
}

// AppendBatch appends the rows that have gathered, as one record batch.
func (w *Writer) AppendBatch(out []byte) []byte {
	var b body
	for _, c := range w.columns {
		c.describe(&b)
	}
	out = appendMessage(out, batchMessage(int64(w.rows), &b))
	for _, data := range b.data {
		out = pad(append(out, data...), len(data))
	}
	for _, c := range w.columns {
		c.reset()
	}
	w.rows = 0
	return out
}

// AppendEnd appends the mark of the end of a stream.
func AppendEnd(out []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(out, continuation...), 0)
}

// continuation precedes the length of every message.
const continuation = "\xff\xff\xff\xff"

// appendMessage appends a message's description. Its length is a multiple of 8, so that buffers behind it are aligned.
func appendMessage(out, description []byte) []byte {
	n := len(description)
	out = binary.LittleEndian.AppendUint32(append(out, continuation...), uint32(n+padding(n)))
	return pad(append(out, description...), n)
}

// padding is the number of zeros behind n bytes.
func padding(n int) int { return -n & 7 }

func pad(out []byte, n int) []byte { return append(out, make([]byte, padding(n))...) }
