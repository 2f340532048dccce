package query

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/parquet"
	"github.com/lazuli-storage/lazuli/internal/budget"
)

// parquetMemory is the maximum size of the pages and dictionaries that a query holds, in bytes.
const parquetMemory = 128 << 20

// parquetReader reads the rows of a Parquet file. A column's name is its path, joined by dots. Only columns that the
// statement uses are read. Repeated columns are not supported: the language cannot express them.
type parquetReader struct {
	content *counted
	star    bool // all columns are needed
	memory  parquet.Budget
	file    *parquet.File
	names   []string
	columns []parquetColumn
	left    int64 // rows of the row group
	row     []value
	number  int64
}

// parquetColumn is a column that the statement uses.
type parquetColumn struct {
	of      int
	values  *parquet.Reader
	convert func(parquet.Value) value
}

// counted counts the bytes read.
type counted struct {
	io.ReaderAt
	work    *budget.Work
	n, size int64 // n is at most size: reading bytes again adds no work
	err     error // an error of reading the content, or the end of the work; not an error of the file format
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	before := c.n
	c.n = min(c.n+int64(n), c.size)
	if err == nil || err == io.EOF {
		stopped := c.work.Read(int(c.n - before))
		if stopped == nil {
			stopped = c.work.Check() // each page is read and decompressed
		}
		if stopped != nil {
			err = stopped
		}
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func newParquetReader(content io.ReaderAt, size int64, star bool, w *budget.Work) *parquetReader {
	return &parquetReader{content: &counted{ReaderAt: content, size: size, work: w}, star: star, memory: parquetMemory}
}

// position returns the row's number, since a row of a Parquet file has no offset.
func (p *parquetReader) position() (at, end int64) { return p.number, p.content.n }

func (p *parquetReader) open(fields []*field) (err error) {
	if p.file, err = parquet.Open(p.content, p.content.size); err != nil {
		if p.content.err != nil {
			return p.content.err
		}
		return &Error{CodeInput, fmt.Sprintf("The content is not a Parquet file that can be read: %v.", err)}
	}
	for _, c := range p.file.Columns {
		if c.Repeated {
			return refuse("The column %s is repeated, which queries cannot read.", c.Name)
		}
		p.names = append(p.names, c.Name)
	}
	needed := make([]bool, len(p.names))
	for _, f := range fields {
		if err := p.content.work.Spend(len(p.names)); err != nil {
			return err
		}
		n, ordinal := f.ordinal()
		switch {
		case f.resolve(p.names):
		case ordinal && n < len(p.names):
			f.column = n
		default:
			return refuse("There is no column %s.", pathString(f.path))
		}
		needed[f.column] = true
	}
	if len(fields) == 0 { // the columns determine the number of rows
		needed[0] = true
	}
	for i := range needed {
		if needed[i] || p.star {
			p.columns = append(p.columns, parquetColumn{i, p.file.Reader(i, &p.memory), convertParquet(&p.file.Columns[i])})
		}
	}
	p.row = make([]value, len(p.names))
	return nil
}

// next returns the next row. It returns io.EOF at the end.
func (p *parquetReader) next() (record, error) {
	switch err := p.advance(); {
	case err == io.EOF || err == errRecordTooLong:
		return nil, err
	case p.content.err != nil:
		return nil, p.content.err
	case err != nil:
		return nil, parseError(p.number, "The Parquet file cannot be read: %v.", err)
	}
	p.number++
	return p, nil
}

// advance moves to the next row.
func (p *parquetReader) advance() error {
	if err := p.content.work.Spend(4 * (1 + len(p.columns))); err != nil { // a run of a few bytes has any number of rows
		p.content.err = err
		return err
	}
	for p.left == 0 {
		readers := make([]*parquet.Reader, len(p.columns))
		for i := range p.columns {
			readers[i] = p.columns[i].values
		}
		var err error
		if p.left, err = p.file.Next(readers); err != nil {
			return err
		}
	}
	p.left--
	length := 0
	for i := range p.columns {
		c := &p.columns[i]
		v, err := c.values.Next()
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case v.Null:
			p.row[c.of] = nullValue
		default:
			p.row[c.of] = c.convert(v)
			length += len(p.row[c.of].b)
		}
	}
	if length > maxRecord {
		return errRecordTooLong
	}
	return nil
}

func (p *parquetReader) field(f *field) (value, error) { return p.row[f.column], nil }

func (p *parquetReader) all(fn func(name []byte, v value)) error {
	for i, v := range p.row {
		fn([]byte(p.names[i]), v)
	}
	return nil
}

// convertParquet returns the conversion from the values of a column.
func convertParquet(c *parquet.Column) func(parquet.Value) value {
	switch c.Meaning {
	case parquet.Decimal:
		numbers, scale := c.Kind == parquet.Int32 || c.Kind == parquet.Int64, c.Scale
		return func(v parquet.Value) value { return decimal(v, numbers, scale) }
	case parquet.Date:
		return func(v parquet.Value) value { return timeValue(time.Unix(v.N*86400, 0).UTC()) }
	case parquet.Millis:
		return func(v parquet.Value) value { return timeValue(time.UnixMilli(v.N).UTC()) }
	case parquet.Micros:
		return func(v parquet.Value) value { return timeValue(time.UnixMicro(v.N).UTC()) }
	case parquet.Nanos:
		return func(v parquet.Value) value { return timeValue(time.Unix(0, v.N).UTC()) }
	case parquet.Unsigned:
		if c.Kind == parquet.Int32 {
			return func(v parquet.Value) value { return intValue(int64(uint32(v.N))) }
		}
		return func(v parquet.Value) value {
			if v.N < 0 { // as text it keeps all digits until it is used in a computation
				return textValue(strconv.FormatUint(uint64(v.N), 10))
			}
			return intValue(v.N)
		}
	case parquet.UUID:
		return func(v parquet.Value) value { return textValue(uuid.UUID(v.B).String()) }
	case parquet.Float16:
		return func(v parquet.Value) value { return finite(half(uint16(v.B[0]) | uint16(v.B[1])<<8)) }
	}
	switch c.Kind {
	case parquet.Boolean:
		return func(v parquet.Value) value { return boolValue(v.N != 0) }
	case parquet.Int32, parquet.Int64:
		return func(v parquet.Value) value { return intValue(v.N) }
	case parquet.Int96: // nanoseconds of a Julian day, as Hive and Impala write times
		return func(v parquet.Value) value {
			nano, day := binary.LittleEndian.Uint64(v.B), binary.LittleEndian.Uint32(v.B[8:])
			return timeValue(time.Unix((int64(day)-2440588)*86400, int64(nano)).UTC())
		}
	case parquet.Float:
		return func(v parquet.Value) value { return finite(float64(math.Float32frombits(uint32(v.N)))) }
	case parquet.Double:
		return func(v parquet.Value) value { return finite(math.Float64frombits(uint64(v.N))) }
	}
	return func(v parquet.Value) value { return bytesValue(v.B) }
}

// half converts a 16-bit float.
func half(b uint16) float64 {
	sign, exponent, fraction := 1.0, int(b>>10&31), float64(b&1023)
	if b>>15 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		return math.NaN() // or infinite
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// finite returns null for NaN and infinities.
func finite(f float64) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nullValue
	}
	return floatValue(f)
}

// maxDecimal is the maximum length of a decimal in bytes: 76 digits, as in the largest type of other systems.
const maxDecimal = 32

// decimal returns a fixed-point number as text, which keeps all digits until it is used in a computation.
func decimal(v parquet.Value, number bool, scale int) value {
	var n big.Int
	switch b := v.B; { // big-endian, two's complement
	case number:
		n.SetInt64(v.N)
	case len(b) > maxDecimal:
		return nullValue
	default:
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(&n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	s := new(big.Int).Abs(&n).String()
	if scale > 0 && scale <= 76 {
		if pad := scale + 1 - len(s); pad > 0 {
			s = strings.Repeat("0", pad) + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return textValue(s)
}
