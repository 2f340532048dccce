// Package avro writes Avro object container files without compression: the format of the change feed's files and of the
// answers to Query Blob Contents. It writes what these two need and reads nothing.
//
// The functions append to a slice, as those of encoding/binary do. A file is a header, then blocks:
//
//	header  "Obj" 1, the schema and the codec as metadata, the sync marker
//	block   the number of records, their length in bytes, the records, the sync marker
//
// https://avro.apache.org/docs/1.11.1/specification/#object-container-files
package avro

import "encoding/binary"

// Marker separates the blocks of a file. All blocks of one file have the same marker.
type Marker [16]byte

// AppendHeader appends the header of a file whose records have a schema, which is in JSON.
func AppendHeader(b []byte, schema string, sync Marker) []byte {
	b = append(b, "Obj\x01"...)
	b = appendMap(b, [][2]string{{"avro.schema", schema}, {"avro.codec", "null"}})
	return append(b, sync[:]...)
}

// AppendBlockHead appends what precedes the records of a block: their number and their length in bytes. The marker
// follows the records.
func AppendBlockHead(b []byte, records, size int) []byte {
	return AppendLong(AppendLong(b, int64(records)), int64(size))
}

// AppendBlock appends a block of encoded records.
func AppendBlock(b []byte, records int, encoded []byte, sync Marker) []byte {
	b = append(AppendBlockHead(b, records, len(encoded)), encoded...)
	return append(b, sync[:]...)
}

// AppendLong appends an int or a long. The varints of encoding/binary are Avro's zigzag encoding.
func AppendLong(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

// AppendString appends a string, or bytes.
func AppendString(b []byte, s string) []byte { return append(AppendLong(b, int64(len(s))), s...) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendMap appends a map of strings as one block, in the order of its pairs.
func appendMap(b []byte, pairs [][2]string) []byte {
	b = AppendMapHead(b, len(pairs))
	for _, p := range pairs {
		b = AppendString(AppendString(b, p[0]), p[1])
	}
	return AppendMapEnd(b)
}

// AppendMapHead begins a map of n entries. Each entry is a key and a value; [AppendMapEnd] follows the last.
func AppendMapHead(b []byte, n int) []byte {
	if n == 0 {
		return b // a map without entries is its end
	}
	return AppendLong(b, int64(n))
}

// AppendMapEnd ends a map.
func AppendMapEnd(b []byte) []byte { return AppendLong(b, 0) }
