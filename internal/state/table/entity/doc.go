// Package entity is the data model of the Table service: typed values, keys and their order, the stored record, and
// the JSON and Atom forms in which clients read and write entities.
//
// It is pure: bytes in, bytes out, no clock, no store, no HTTP. Its errors have Azure's codes and texts, see [Error].
//
// # Where to start
//
//   - types.go: the eight property types and [Value].
//   - key.go: how PartitionKey and RowKey become one ordered key.
//   - record.go: the stored form of an entity, drawn.
//   - json_read.go and json_write.go: the wire form; atom.go: the older one.
//   - limits.go: what Azure allows in names, keys and values.
//
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
package entity
