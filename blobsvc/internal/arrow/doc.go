// Package arrow writes streams of the Apache Arrow IPC format, for List Blobs and Query Blob Contents: a schema, record
// batches, and the mark of the end. It reads nothing, and has the few types of columns that these answers need.
//
// A [Writer] has a [Column] for each field. The caller appends one value to every column for each row, and takes the
// rows that have gathered as a record batch. The buffers of a batch are copied as they are; the descriptions around
// them are FlatBuffers (metadata.go).
//
// docs/design says why this is not the library of the Arrow project.
//
// https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
package arrow
