package arrow

import flatbuffers "github.com/google/flatbuffers/go"

// The descriptions of messages. The numbers of fields and types are those of Message.fbs and Schema.fbs.
// https://github.com/apache/arrow/tree/main/format

const (
	metadataV5 = 4 // of MetadataVersion

	schemaHeader = 1 // of MessageHeader
	batchHeader  = 3
)

// body collects the nodes and buffers of a record batch.
type body struct {
	nodes   [][2]int64 // number of rows, and of nulls
	buffers [][2]int64 // offset and length
	data    [][]byte
	length  int64
}

func (b *body) node(rows, nulls int) { b.nodes = append(b.nodes, [2]int64{int64(rows), int64(nulls)}) }

func (b *body) buffer(data []byte) {
	b.buffers = append(b.buffers, [2]int64{b.length, int64(len(data))})
	b.data = append(b.data, data)
	b.length += int64(len(data) + padding(len(data)))
}

// message finishes a Message with a header of that type.
func message(b *flatbuffers.Builder, kind byte, header flatbuffers.UOffsetT, bodyLength int64) []byte {
	b.StartObject(5)
	b.PrependInt64Slot(3, bodyLength, 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependByteSlot(1, kind, 0)
	b.PrependInt16Slot(0, metadataV5, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

func batchMessage(rows int64, content *body) []byte {
	b := flatbuffers.NewBuilder(1 << 10)
	buffers, nodes := pairs(b, content.buffers), pairs(b, content.nodes)
	b.StartObject(4)
	b.PrependUOffsetTSlot(2, buffers, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependInt64Slot(0, rows, 0)
	return message(b, batchHeader, b.EndObject(), content.length)
}

// pairs writes a vector of structs of two 64-bit numbers.
func pairs(b *flatbuffers.Builder, list [][2]int64) flatbuffers.UOffsetT {
	b.StartVector(16, len(list), 8)
	for i := len(list) - 1; i >= 0; i-- {
		b.PrependInt64(list[i][1])
		b.PrependInt64(list[i][0])
	}
	return b.EndVector(len(list))
}

func schemaMessage(fields []Field, metadata []Pair) []byte {
	b := flatbuffers.NewBuilder(1 << 10)
	offsets := make([]flatbuffers.UOffsetT, len(fields))
	for i, f := range fields {
		offsets[i] = column(b, f)
	}
	list := vector(b, offsets)
	var custom flatbuffers.UOffsetT
	if len(metadata) > 0 {
		offsets = offsets[:0]
		for _, p := range metadata {
			key, value := b.CreateString(p.Key), b.CreateString(p.Value)
			b.StartObject(2)
			b.PrependUOffsetTSlot(1, value, 0)
			b.PrependUOffsetTSlot(0, key, 0)
			offsets = append(offsets, b.EndObject())
		}
		custom = vector(b, offsets)
	}
	b.StartObject(4)
	b.PrependUOffsetTSlot(2, custom, 0)
	b.PrependUOffsetTSlot(1, list, 0)
	return message(b, schemaHeader, b.EndObject(), 0)
}

func vector(b *flatbuffers.Builder, offsets []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(offsets), 4)
	for i := len(offsets) - 1; i >= 0; i-- {
		b.PrependUOffsetT(offsets[i])
	}
	return b.EndVector(len(offsets))
}

// column writes a field that may be null.
func column(b *flatbuffers.Builder, f Field) flatbuffers.UOffsetT {
	var children []flatbuffers.UOffsetT
	if f.Kind == StringMap {
		pair := []flatbuffers.UOffsetT{field(b, "key", false, String, Field{}, nil),
			field(b, "value", true, String, Field{}, nil)}
		children = []flatbuffers.UOffsetT{field(b, "entries", false, structKind, Field{}, pair)}
	}
	return field(b, f.Name, true, f.Kind, f, children)
}

// structKind is the type of the entries of a map.
const structKind Kind = 0xff

// field writes a Field.
func field(b *flatbuffers.Builder, name string, nullable bool, k Kind, f Field,
	children []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	list := vector(b, children)
	text := b.CreateString(name)
	tag, kind := fieldType(b, k, f)
	b.StartObject(7)
	b.PrependUOffsetTSlot(5, list, 0)
	b.PrependUOffsetTSlot(3, kind, 0)
	b.PrependUOffsetTSlot(0, text, 0)
	b.PrependByteSlot(2, tag, 0)
	b.PrependBoolSlot(1, nullable, false)
	return b.EndObject()
}

// fieldType writes the table of a type and returns its number in the union Type.
func fieldType(b *flatbuffers.Builder, k Kind, f Field) (tag byte, table flatbuffers.UOffsetT) {
	// The numbers of types and slots are those of the union Type and of its tables in Arrow's Schema.fbs; a reader
	// takes a slot that is not written for its default there, and so the last argument of each call is that default.
	switch k {
	case String:
		tag = 5
		b.StartObject(0)
	case Bool:
		tag = 6
		b.StartObject(0)
	case Int32, Int64, Uint64:
		tag = 2
		b.StartObject(2)
		b.PrependInt32Slot(0, int32(8*k.width()), 0)
		b.PrependBoolSlot(1, k != Uint64, false)
	case Double:
		tag = 3
		b.StartObject(1)
		b.PrependInt16Slot(0, 2, 0)
	case TimestampMillis, TimestampMicros:
		tag = 10
		b.StartObject(2)
		b.PrependInt16Slot(0, int16(k-TimestampMillis)+1, 0)
	case Decimal:
		tag = 7
		b.StartObject(3)
		b.PrependInt32Slot(2, 128, 128)
		b.PrependInt32Slot(1, f.Scale, 0)
		b.PrependInt32Slot(0, f.Precision, 0)
	case StringMap:
		tag = 17
		b.StartObject(1)
	case structKind:
		tag = 13
		b.StartObject(0)
	}
	return tag, b.EndObject()
}
