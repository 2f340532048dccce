// Package arrowread reads streams of the Apache Arrow IPC format in tests, independently of the package that writes
// them. It knows the types that Lazuli sends, and fails the test for everything that the format does not permit.
package arrowread

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Stream holds what a stream holds.
type Stream struct {
	// Metadata is that of the schema.
	Metadata map[string]string
	// Columns are the names of the columns, and Types their types: the union's number and the first two fields of the
	// type.
	Columns []string
	Types   [][3]int
	// Rows have the values that are not null: string, bool, int64, uint64, float64, *big.Int or map[string]string.
	Rows []map[string]any
	// Batches is the number of record batches.
	Batches int
}

// table reads the fields of a FlatBuffers table.
type table struct{ flatbuffers.Table }

func (t table) at(slot int) flatbuffers.UOffsetT {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*slot)))
	if o == 0 {
		return 0
	}
	return t.Pos + o
}

func (t table) number(slot, size int) int64 {
	o := t.at(slot)
	switch {
	case o == 0:
		return 0
	case size == 1:
		return int64(t.GetByte(o))
	case size == 2:
		return int64(t.GetInt16(o))
	case size == 4:
		return int64(t.GetInt32(o))
	}
	return t.GetInt64(o)
}

func (t table) table(slot int) table {
	return table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.at(slot))}}
}

func (t table) text(slot int) string {
	if o := t.at(slot); o != 0 {
		return string(t.ByteVector(o))
	}
	return ""
}

// tables returns a vector of tables.
func (t table) tables(slot int) (list []table) {
	if t.at(slot) == 0 {
		return nil
	}
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*slot)))
	start := t.Vector(o)
	for i := range t.VectorLen(o) {
		list = append(list, table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}})
	}
	return list
}

// pairs returns a vector of structs of two 64-bit numbers.
func (t table) pairs(slot int) (list [][2]int64) {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*slot)))
	start := t.Vector(o)
	for i := range t.VectorLen(o) {
		at := start + flatbuffers.UOffsetT(16*i)
		list = append(list, [2]int64{t.GetInt64(at), t.GetInt64(at + 8)})
	}
	return list
}

// Read reads a whole stream.
func Read(t testing.TB, data []byte) (s Stream) {
	t.Helper()
	var fields []table
	for first := true; ; first = false {
		if len(data) < 8 || binary.LittleEndian.Uint32(data) != math.MaxUint32 {
			t.Fatalf("no message at % x", data[:min(len(data), 16)])
		}
		n := int(binary.LittleEndian.Uint32(data[4:]))
		data = data[8:]
		// The mark of the end of a stream.
		if n == 0 {
			break
		}
		if n%8 != 0 || n > len(data) {
			t.Fatalf("a message of %d bytes, of %d", n, len(data))
		}
		// The layout of https://arrow.apache.org/docs/format/Columnar.html, read by hand: the test must not share the
		// writer's code. Numbers are those of the fields in Message.fbs.
		m := table{flatbuffers.Table{Bytes: data[:n], Pos: flatbuffers.GetUOffsetT(data)}}
		data = data[n:]
		if version := m.number(0, 2); version != 4 {
			t.Fatalf("metadata version %d", version)
		}
		header, length := m.table(2), m.number(3, 8)
		switch kind := m.number(1, 1); {
		case first && kind == 1:
			fields = header.tables(1)
			s.Metadata = map[string]string{}
			for _, p := range header.tables(2) {
				s.Metadata[p.text(0)] = p.text(1)
			}
			for _, f := range fields {
				s.Columns = append(s.Columns, f.text(0))
				s.Types = append(s.Types, typeOf(f))
			}
		case !first && kind == 3:
			s.Batches++
			b := &batch{t: t, nodes: header.pairs(1), buffers: header.pairs(2), body: data[:length]}
			rows := make([]map[string]any, header.number(0, 8))
			for i := range rows {
				rows[i] = map[string]any{}
			}
			for i, f := range fields {
				for row, v := range b.column(f) {
					if v != nil {
						rows[row][s.Columns[i]] = v
					}
				}
			}
			// Columns take nodes and buffers from the front; one that is left belongs to no column, and a reader would go out
			// of step.
			if len(b.nodes) > 0 || len(b.buffers) > 0 {
				t.Fatalf("%d nodes and %d buffers of no column", len(b.nodes), len(b.buffers))
			}
			s.Rows = append(s.Rows, rows...)
			data = data[length:]
		default:
			t.Fatalf("a message of type %d", kind)
		}
	}
	if len(data) > 0 {
		t.Fatalf("%d bytes behind the end", len(data))
	}
	return s
}

// The numbers of types.
const (
	intType       = 2
	floatType     = 3
	textType      = 5
	boolType      = 6
	decimalType   = 7
	timestampType = 10
	structType    = 13
	mapType       = 17
)

func typeOf(f table) [3]int {
	tag, kind := int(f.number(2, 1)), f.table(3)
	switch tag {
	case intType:
		return [3]int{tag, int(kind.number(0, 4)), int(kind.number(1, 1))}
	case decimalType:
		return [3]int{tag, int(kind.number(0, 4)), int(kind.number(1, 4))}
	case floatType, timestampType:
		return [3]int{tag, int(kind.number(0, 2))}
	}
	return [3]int{tag}
}

// batch hands out nodes and buffers in the order of columns.
type batch struct {
	t              testing.TB
	nodes, buffers [][2]int64
	body           []byte
}

func (b *batch) node() (rows, nulls int) {
	n := b.nodes[0]
	b.nodes = b.nodes[1:]
	return int(n[0]), int(n[1])
}

func (b *batch) buffer() []byte {
	at := b.buffers[0]
	b.buffers = b.buffers[1:]
	if at[0]%8 != 0 {
		b.t.Fatalf("a buffer at %d", at[0])
	}
	return b.body[at[0] : at[0]+at[1]]
}

func bit(bits []byte, i int) bool { return bits[i/8]>>(i%8)&1 == 1 }

// column reads the values of a field; nil for null.
func (b *batch) column(f table) []any {
	rows, nulls := b.node()
	valid := b.buffer()
	values := make([]any, rows)
	kind := typeOf(f)
	value := b.values(f, kind)
	for i := range values {
		if len(valid) > 0 && !bit(valid, i) {
			nulls--
		} else {
			values[i] = value(i)
		}
	}
	if nulls != 0 {
		b.t.Fatalf("%s: the number of nulls is wrong by %d", f.text(0), nulls)
	}
	return values
}

// values reads the buffers of a field and returns the function for one value.
func (b *batch) values(f table, kind [3]int) func(i int) any {
	switch kind[0] {
	case structType:
		children := f.tables(5)
		keys, values := b.column(children[0]), b.column(children[1])
		return func(i int) any { return [2]any{keys[i], values[i]} }
	case mapType:
		offsets := b.buffer()
		entries := b.column(f.tables(5)[0])
		return func(i int) any {
			m := map[string]string{}
			for _, e := range entries[binary.LittleEndian.Uint32(offsets[4*i:]):binary.LittleEndian.Uint32(offsets[4*i+4:])] {
				pair := e.([2]any)
				m[pair[0].(string)] = pair[1].(string)
			}
			return m
		}
	case textType:
		offsets, data := b.buffer(), b.buffer()
		return func(i int) any {
			return string(data[binary.LittleEndian.Uint32(offsets[4*i:]):binary.LittleEndian.Uint32(offsets[4*i+4:])])
		}
	}
	data := b.buffer()
	return func(i int) any {
		switch kind {
		case [3]int{boolType}:
			return bit(data, i)
		case [3]int{intType, 32, 1}:
			return int64(int32(binary.LittleEndian.Uint32(data[4*i:])))
		case [3]int{intType, 64, 0}:
			return binary.LittleEndian.Uint64(data[8*i:])
		case [3]int{floatType, 2}:
			return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		if kind[0] == decimalType {
			return decimal(data[16*i : 16*i+16])
		}
		return int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
}

// decimal reads an integer of 128 bits in two's complement.
func decimal(b []byte) *big.Int {
	n := new(big.Int).SetUint64(binary.LittleEndian.Uint64(b[8:]))
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(binary.LittleEndian.Uint64(b)))
	if b[15]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return n
}
