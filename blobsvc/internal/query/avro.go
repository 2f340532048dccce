package query

import (
	"crypto/rand"
	"io"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
)

// schema is the union of the record types in a response. Clients read the names.
const schema = `[` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.resultData","doc":"Holds result data in the format specified for this query (CSV, JSON, etc.).","fields":[{"name":"data","type":"bytes"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.error","doc":"An error that occurred while processing the query.","fields":[{"name":"fatal","type":"boolean"},{"name":"name","type":"string"},{"name":"description","type":"string"},{"name":"position","type":"long"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.progress","doc":"Describes the progress of the query.","fields":[{"name":"bytesScanned","type":"long"},{"name":"totalBytes","type":"long"}]},` +
	`{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.end","doc":"Sent when the query is done.","fields":[{"name":"totalBytes","type":"long"}]}` +
	`]`

// Indexes of the record types in the union.
const (
	resultBranch = iota
	errorBranch
	progressBranch
	endBranch
)

// frames writes an Avro object container file without compression, with one record in each block, so that a client can
// process each record when it arrives.
type frames struct {
	w    io.Writer
	sync avro.Marker
	head []byte
	some bool // a record was written
}

func newFrames(w io.Writer) (*frames, error) {
	f := &frames{w: w, head: make([]byte, 0, 256)}
	if _, err := rand.Read(f.sync[:]); err != nil {
		return nil, err
	}
	_, err := w.Write(avro.AppendHeader(nil, schema, f.sync))
	return f, err
}

// block writes one record: head, with the branch of the union first, and then data.
func (f *frames) block(head, data []byte) error {
	b := append(avro.AppendBlockHead(nil, 1, len(head)+len(data)), head...)
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
	head := avro.AppendLong(f.head[:0], resultBranch)
	return f.block(avro.AppendLong(head, int64(len(data))), data)
}

// error writes an error record. It is never the first record, because the Python client cannot parse that.
func (f *frames) error(e *recordError) error {
	if !f.some {
		if err := f.result(nil); err != nil {
			return err
		}
	}
	head := avro.AppendLong(f.head[:0], errorBranch)
	head = avro.AppendBool(head, e.fatal)
	head = avro.AppendString(head, e.name)
	head = avro.AppendString(head, e.description)
	return f.block(avro.AppendLong(head, e.at), nil)
}

func (f *frames) progress(scanned, total int64) error {
	head := avro.AppendLong(f.head[:0], progressBranch)
	head = avro.AppendLong(head, scanned)
	return f.block(avro.AppendLong(head, total), nil)
}

func (f *frames) end(total int64) error {
	return f.block(avro.AppendLong(avro.AppendLong(f.head[:0], endBranch), total), nil)
}
