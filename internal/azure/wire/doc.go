// Package wire is the part of the Azure Storage protocol that the Blob, Queue and Table services share: a request
// parsed once into a value, the one error type with its renderers, versions, times, entity tags, conditional headers,
// ranges, metadata, and bounded XML.
//
// It knows no operation and no state. A service takes a [Request], answers through it, and returns an [*Error] for
// everything that goes wrong. Nothing here reads a clock: the time of a request is [Request.Now].
//
// Where to start: [Parse] for what is read from a request, [Error] for failures, response.go for how answers are
// written.
package wire
