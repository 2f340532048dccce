package query

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetReader reads the rows of a Parquet file, whose columns are named by their path, joined by dots. Repeated columns
// cannot be read: the language has no place for them.
type parquetReader struct {
	content *counted
	file    *parquet.File
	names   []string
	convert []func(parquet.Value) value
	// groups are the row groups that were not begun; rows reads the one that was.
	groups []parquet.RowGroup
	rows   parquet.Rows
	batch  []parquet.Row
	ready  []parquet.Row // of batch, that were not handed out
	row    []value
	number int64
}

// parquetBatch is how many rows are decoded at a time.
const parquetBatch = 64

// counted counts what is read.
type counted struct {
	io.ReaderAt
	n, size int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n = min(c.n+int64(n), c.size)
	return n, err
}

func newParquetReader(content io.ReaderAt, size int64) *parquetReader {
	return &parquetReader{content: &counted{ReaderAt: content, size: size}, batch: make([]parquet.Row, parquetBatch)}
}

// position is the number of the row, since rows of a Parquet file have no place of their own.
func (p *parquetReader) position() (at, end int64) { return p.number, p.content.n }

// safely runs fn, whose panics become errors: a file can be damaged in more ways than the library looks for.
func safely(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return fn()
}

func (p *parquetReader) open(fields []*field) error {
	err := safely(func() error { return p.columns(fields) })
	if refused := (*Error)(nil); err != nil && !errors.As(err, &refused) {
		return &Error{CodeInput, "The content is not a Parquet file."}
	}
	return err
}

// columns reads the file's description and resolves fields.
func (p *parquetReader) columns(fields []*field) (err error) {
	p.file, err = parquet.OpenFile(p.content, p.content.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	schema := p.file.Schema()
	for _, path := range schema.Columns() {
		leaf, _ := schema.Lookup(path...)
		name := strings.Join(path, ".")
		if leaf.MaxRepetitionLevel > 0 {
			return refuse("The column %s is repeated, which queries cannot read.", name)
		}
		p.names = append(p.names, name)
		p.convert = append(p.convert, parquetColumn(leaf.Node.Type()))
	}
	for _, f := range fields {
		n, ordinal := f.ordinal()
		switch {
		case f.resolve(p.names):
		case ordinal && n < len(p.names):
			f.column = n
		default:
			return refuse("There is no column %s.", pathString(f.path))
		}
	}
	p.groups = p.file.RowGroups()
	p.row = make([]value, len(p.names))
	return nil
}

// next returns the next row. io.EOF is the end.
func (p *parquetReader) next() (record, error) {
	switch err := safely(p.advance); {
	case err == io.EOF:
		return nil, err
	case err != nil:
		return nil, parseError(p.number, "The Parquet file is damaged: %v.", err)
	}
	p.number++
	return p, nil
}

// advance makes the next row the present one.
func (p *parquetReader) advance() error {
	if len(p.ready) == 0 {
		if err := p.fill(); err != nil {
			return err
		}
	}
	for i := range p.row {
		p.row[i] = nullValue
	}
	for _, v := range p.ready[0] {
		if i := v.Column(); i >= 0 && i < len(p.row) && !v.IsNull() {
			p.row[i] = p.convert[i](v)
		}
	}
	p.ready = p.ready[1:]
	return nil
}

// fill decodes some rows.
func (p *parquetReader) fill() error {
	for {
		if p.rows == nil {
			if len(p.groups) == 0 {
				return io.EOF
			}
			p.rows = p.groups[0].Rows()
			p.groups = p.groups[1:]
		}
		n, err := p.rows.ReadRows(p.batch)
		if p.ready = p.batch[:n]; n > 0 {
			return nil
		}
		switch {
		case err == nil:
			return io.ErrNoProgress
		case !errors.Is(err, io.EOF):
			return err
		}
		p.close()
	}
}

// close releases what the row group holds.
func (p *parquetReader) close() {
	if p.rows != nil {
		_ = safely(p.rows.Close)
		p.rows = nil
	}
}

func (p *parquetReader) field(f *field) (value, error) { return p.row[f.column], nil }

func (p *parquetReader) all(fn func(name []byte, v value)) {
	for i, v := range p.row {
		fn([]byte(p.names[i]), v)
	}
}

// parquetColumn returns what turns the values of a type into ours.
func parquetColumn(t parquet.Type) func(parquet.Value) value {
	if l := t.LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.DecimalType:
			return func(v parquet.Value) value { return decimal(v, int(l.Scale)) }
		case *format.DateType:
			return func(v parquet.Value) value { return timeValue(time.Unix(int64(v.Int32())*86400, 0).UTC()) }
		case *format.TimestampType:
			if l.Unit.Value != nil {
				u := l.Unit.Value.Duration()
				perSecond := int64(time.Second / u)
				return func(v parquet.Value) value {
					n := v.Int64()
					return timeValue(time.Unix(n/perSecond, n%perSecond*int64(u)).UTC())
				}
			}
		case *format.UUIDType:
			return func(v parquet.Value) value {
				id, err := uuid.FromBytes(v.ByteArray())
				if err != nil {
					return nullValue
				}
				return textValue(id.String())
			}
		case *format.IntType:
			if !l.IsSigned && t.Kind() == parquet.Int32 {
				return func(v parquet.Value) value { return intValue(int64(v.Uint32())) }
			}
		}
	}
	return plainParquet
}

// plainParquet converts by the physical type.
func plainParquet(v parquet.Value) value {
	switch v.Kind() {
	case parquet.Boolean:
		return boolValue(v.Boolean())
	case parquet.Int32:
		return intValue(int64(v.Int32()))
	case parquet.Int64:
		return intValue(v.Int64())
	case parquet.Int96: // nanoseconds of a Julian day, as Hive and Impala write times
		n := v.Int96()
		nano := int64(n[0]) | int64(n[1])<<32
		return timeValue(time.Unix((int64(n[2])-2440588)*86400, nano).UTC())
	case parquet.Float:
		return finite(float64(v.Float()))
	case parquet.Double:
		return finite(v.Double())
	}
	return bytesValue(v.ByteArray())
}

// finite is null for what is no number.
func finite(f float64) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nullValue
	}
	return floatValue(f)
}

// decimal is a number with a fixed point, as text: so it loses no digit until something is computed from it.
func decimal(v parquet.Value, scale int) value {
	var n big.Int
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default:
		b := v.ByteArray() // big-endian, two's complement
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
