package query

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/arrow"
)

// arrowFormat is the format of results as an Arrow stream.
const arrowFormat = "arrow"

const (
	// maxArrowFields bounds the columns of a schema: each needs some bytes of every record, whatever the record has.
	maxArrowFields = 1024
	// maxPrecision is the number of digits of a decimal of 128 bits.
	maxPrecision = 38
)

// arrowKinds are the types that a request can name.
var arrowKinds = map[string]struct {
	kind arrow.Kind
	cast kind
}{
	"int64":         {arrow.Int64, integer},
	"bool":          {arrow.Bool, boolean},
	"timestamp[ms]": {arrow.TimestampMillis, timestamp},
	"string":        {arrow.String, text},
	"double":        {arrow.Double, float},
	"decimal":       {arrow.Decimal, text},
}

type arrowXML struct {
	Fields []struct {
		Type, Name       string
		Precision, Scale int32
	} `xml:"Schema>Field"`
}

// schema checks the columns that a request names. Precision and scale count for decimals alone; without them, as in
// SQL, a decimal has all its digits before the point.
func (x *arrowXML) schema() (fields []arrow.Field, err error) {
	if x == nil || len(x.Fields) == 0 {
		return nil, invalidNode("ArrowConfiguration", "")
	}
	if len(x.Fields) > maxArrowFields {
		return nil, invalidNode("Schema", strconv.Itoa(len(x.Fields))+" fields")
	}
	for i, f := range x.Fields {
		kind, ok := arrowKinds[f.Type]
		if !ok {
			return nil, invalidNode("Type", f.Type)
		}
		// A column without a name gets its number, as in results of CSV.
		field := arrow.Field{Name: orOrdinal(f.Name, i+1), Kind: kind.kind}
		if field.Kind == arrow.Decimal {
			// Left out means the most digits, 38.
			if field.Precision, field.Scale = f.Precision, f.Scale; field.Precision == 0 {
				field.Precision = maxPrecision
			}
			if field.Precision < 1 || field.Precision > maxPrecision {
				return nil, invalidNode("Precision", strconv.Itoa(int(f.Precision)))
			}
			if field.Scale < 0 || field.Scale > field.Precision {
				return nil, invalidNode("Scale", strconv.Itoa(int(f.Scale)))
			}
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// errSchema is a record that does not have the columns of the schema, which go by their position.
var errSchema = &recordError{name: "InvalidColumnOrdinal",
	description: "The record has another number of columns than the schema."}

// arrowWriter writes an Arrow stream. A record whose values are not of the types of the schema is an error, and none of
// it is written.
type arrowWriter struct {
	*arrow.Writer
	fields []arrow.Field
	casts  []kind
	// cells are the values of the current record, decimals those of its decimals.
	cells    []value
	decimals []*big.Int
	// gathered is the size in bytes of what was not written yet.
	gathered int
	next     func(name []byte, v value)
}

func newArrowWriter(fields []arrow.Field) *arrowWriter {
	w := &arrowWriter{Writer: arrow.NewWriter(fields), fields: fields, decimals: make([]*big.Int, len(fields))}
	for _, f := range fields {
		for _, k := range arrowKinds {
			if k.kind == f.Kind {
				w.casts = append(w.casts, k.cast)
			}
		}
	}
	w.next = func(_ []byte, v value) {
		if len(w.cells) <= len(w.fields) { // one more is an error
			w.cells = append(w.cells, v)
		}
	}
	return w
}

func (w *arrowWriter) begin(out []byte, _ []string) []byte { return w.AppendSchema(out, nil) }

func (w *arrowWriter) all(out []byte, r record) ([]byte, error) {
	w.cells = w.cells[:0]
	if err := r.all(w.next); err != nil {
		return out, err
	}
	return out, w.row()
}

func (w *arrowWriter) values(out []byte, list []value) ([]byte, error) {
	w.cells = append(w.cells[:0], list...)
	return out, w.row()
}

// row converts the cells, and appends them once all could be.
func (w *arrowWriter) row() (err error) {
	if len(w.cells) != len(w.fields) {
		return errSchema
	}
	size := 0
	// All cells are converted before the first is appended: a record that fails must leave the columns at equal length.
	for i, v := range w.cells {
		if w.cells[i], err = v.cast(w.casts[i]); err != nil {
			return err
		}
		size += 16 + len(w.cells[i].b)
		if f := &w.fields[i]; f.Kind == arrow.Decimal && !v.absent() {
			n, ok := parseDecimal(w.cells[i].b, int(f.Scale))
			if !ok {
				return errConversion
			}
			w.decimals[i] = n
		}
	}
	if size > maxRecord {
		return errRecordTooLong
	}
	for i, v := range w.cells {
		if !v.absent() {
			w.append(i, v)
		}
	}
	w.EndRow()
	w.gathered += size
	return nil
}

// append appends a value of the column's type.
func (w *arrowWriter) append(i int, v value) {
	switch c := w.Column(i); w.fields[i].Kind {
	case arrow.Int64:
		c.Int(v.n)
	case arrow.Bool:
		c.Bool(v.n != 0)
	case arrow.TimestampMillis:
		c.Int(v.t.UnixMilli())
	case arrow.Double:
		c.Double(v.f)
	case arrow.Decimal:
		c.Decimal(w.decimals[i])
	default:
		c.String(string(bytes.ToValidUTF8(v.b, []byte("\ufffd"))))
	}
}

func (w *arrowWriter) held() int { return w.gathered }

func (w *arrowWriter) flush(out []byte, end bool) ([]byte, error) {
	if w.Rows() > 0 {
		out = w.AppendBatch(out)
		w.gathered = 0
	}
	if end {
		out = arrow.AppendEnd(out)
	}
	return out, nil
}

// parseDecimal reads a number, with or without an exponent, as an integer in units of 10^-scale, rounded half away from
// zero. ok is false if it is no number, or has more than maxPrecision digits. Like Azure, it does not hold numbers
// against the precision of the column.
func parseDecimal(b []byte, scale int) (n *big.Int, ok bool) {
	b = bytes.TrimSpace(b)
	exponent := 0
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(b[i+1:])); err != nil || exponent < -maxRecord || exponent > maxRecord {
			return nil, false
		}
		b = b[:i]
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	whole, fraction, _ := bytes.Cut(b, []byte("."))
	if len(whole)+len(fraction) == 0 {
		return nil, false
	}
	digits := append(bytes.Clone(whole), fraction...)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return nil, false
		}
	}
	point := len(whole) + exponent + scale // the number of digits that count
	// Leading zeros do not count against the precision. With point below zero the number is less than a tenth of a unit,
	// and rounds to zero.
	zeros := len(digits) - len(bytes.TrimLeft(digits, "0"))
	digits, point = digits[zeros:], point-zeros
	if point > maxPrecision && len(digits) > 0 {
		return nil, false
	}
	if len(digits) == 0 || point < 0 {
		return new(big.Int), true
	}
	up := point < len(digits) && digits[point] >= '5'
	for len(digits) < point {
		digits = append(digits, '0')
	}
	n, _ = new(big.Int).SetString("0"+string(digits[:point]), 10)
	if up {
		n.Add(n, big.NewInt(1))
	}
	if negative {
		n.Neg(n)
	}
	return n, true
}
