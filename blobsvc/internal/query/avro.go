package query

import (
	"crypto/rand"
	"encoding/binary"
	"io"
)

// schema is the union of records that an answer consists of. Clients look at the names.
const schema = `[` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.resultData","doc":"Holds result data in the format specified for this query (CSV, JSON, etc.).","fields":[{"name":"data","type":"bytes"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.error","doc":"An error that occurred while processing the query.","fields":[{"name":"fatal","type":"boolean"},{"name":"name","type":"string"},{"name":"description","type":"string"},{"name":"position","type":"long"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.progress","doc":"Describes the progress of the query.","fields":[{"name":"bytesScanned","type":"long"},{"name":"totalBytes","type":"long"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.end","doc":"Sent when the query is done.","fields":[{"name":"totalBytes","type":"long"}]}` +
	`]`

// The places of the records in the union.
const (
	resultBranch = iota
	errorBranch
	progressBranch
	endBranch
)

// frames writes an Avro object container file without compression, with one record in each block, so that a client can act
// on every record at once.
// https://avro.apache.org/docs/1.11.1/specification/#object-container-files
type frames struct {
	w    io.Writer
	sync [16]byte
	head []byte
	some bool // a record was written
}

func newFrames(w io.Writer) (*frames, error) {
	f := &frames{w: w, head: make([]byte, 0, 256)}
	if _, err := rand.Read(f.sync[:]); err != nil {
		return nil, err
	}
	b := append([]byte(nil), "Obj\x01"...)
	b = binary.AppendVarint(b, 2) // entries of the metadata
	for _, s := range [...]string{"avro.schema", schema, "avro.codec", "null"} {
		b = appendString(b, s)
	}
	b = binary.AppendVarint(b, 0)
	b = append(b, f.sync[:]...)
	_, err := w.Write(b)
	return f, err
}

// appendString appends a string of Avro. encoding/binary's varints are the zigzag ones of Avro.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

// block writes one record: head, with the branch of the union first, and then data.
func (f *frames) block(head, data []byte) error {
	b := binary.AppendVarint(nil, 1)
	b = binary.AppendVarint(b, int64(len(head)+len(data)))
	b = append(b, head...)
	if _, err := f.w.Write(b); err != nil {
		return err
	}
	if len(data) > 0 {
		if _, err := f.w.Write(data); err != nil {
			return err
		}
	}
	_, err := f.w.Write(f.sync[:])
	return err
}

func (f *frames) result(data []byte) error {
	f.some = true
	head := binary.AppendVarint(f.head[:0], resultBranch)
	return f.block(binary.AppendVarint(head, int64(len(data))), data)
}

// error tells of an error. It is never the first record: the client for Python cannot take it then.
func (f *frames) error(e *recordError) error {
	if !f.some {
		if err := f.result(nil); err != nil {
			return err
		}
	}
	head := binary.AppendVarint(f.head[:0], errorBranch)
	if e.fatal {
		head = append(head, 1)
	} else {
		head = append(head, 0)
	}
	head = appendString(head, e.name)
	head = appendString(head, e.description)
	return f.block(binary.AppendVarint(head, e.at), nil)
}

func (f *frames) progress(scanned, total int64) error {
	head := binary.AppendVarint(f.head[:0], progressBranch)
	head = binary.AppendVarint(head, scanned)
	return f.block(binary.AppendVarint(head, total), nil)
}

func (f *frames) end(total int64) error {
	return f.block(binary.AppendVarint(binary.AppendVarint(f.head[:0], endBranch), total), nil)
}
