// Package wire is the part of the Azure Storage protocol that the Blob, Queue and Table services share: a request
// parsed once into a value, the one error type with its renderers, versions, times, entity tags, conditional headers,
// ranges, metadata, and bounded XML.
//
// It contains neither operations nor state. A service gets a [Request], responds through it, and returns an [*Error]
// for every failure. The package does not read a clock: the time of a request is [Request.Now].
//
// Where to start: [Parse] for requests, [Error] for failures, response.go for answers.
package wire
