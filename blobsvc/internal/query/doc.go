// Package query evaluates the SQL of Query Blob Contents over a stream of delimited text or JSON, or over a Parquet file.
//
// # Concepts
//
// [ParseRequest] reads the XML of a request and compiles its SQL: lexer.go, parser.go and expression.go make a statement of
// it, whose expressions evaluate themselves (value.go has what they work on, functions.go and dates.go what they call).
// [Request.Open] begins to read the content and resolves the names of columns, so that what can be refused is refused
// before an answer has begun; [Query.Run] does the rest. A reader (csv_reader.go, json_reader.go, parquet_reader.go) hands
// out one record at a time, a writer (csv_writer.go, json_writer.go) takes one at a time, and avro.go wraps
// what was written as the client libraries expect it. run.go is the loop between them.
//
// # Limits
//
// Nothing holds the content: a query needs the memory of one record, which may have 4 MiB and 100,000 columns, and of some buffers.
// What a query computes is bounded by what it reads (work.go), and the SQL by its number of tokens. A query ends once its context is
// done, also in the middle of a record.
//
// # How true it is
//
// The language is that of the reference; what the reference leaves open follows the answers that tests of the official
// clients expect. docs/blob.md lists what is a decision of ours.
//
// https://learn.microsoft.com/rest/api/storageservices/query-blob-contents
// https://learn.microsoft.com/azure/storage/blobs/query-acceleration-sql-reference
package query
