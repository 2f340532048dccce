// Package query evaluates the SQL of Query Blob Contents over a stream of delimited text or JSON, or over a Parquet
// file.
//
// # Concepts
//
// [ParseRequest] parses the XML of a request and its SQL: lexer.go, parser.go and expression.go build a statement,
// whose expressions evaluate themselves (value.go has the values, functions.go and dates.go the functions).
// [Request.Open] begins to read the content and resolves the names of columns, so that an invalid query is refused
// before the response begins; [Query.Run] does the rest. A reader (csv_reader.go, json_reader.go, parquet_reader.go)
// returns one record at a time, a writer (csv_writer.go, json_writer.go, arrow_writer.go) formats it, and avro.go wraps
// the output as the client libraries expect it. run.go has the loop over the records.
//
// # Limits
//
// The content is streamed: a query needs memory for one record, of at most 4 MiB and 100,000 columns, and for some
// buffers. The work of a query is limited by package budget, in proportion to the bytes that it reads, the SQL by its
// number of tokens. A query ends when its context is done, even within a record.
//
// # Fidelity
//
// The language is the one in the reference. Where the reference says nothing, the answers are those that tests of the
// official clients expect. docs/blob.md lists what this project decided.
//
// https://learn.microsoft.com/rest/api/storageservices/query-blob-contents
// https://learn.microsoft.com/azure/storage/blobs/query-acceleration-sql-reference
package query
