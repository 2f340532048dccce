// Package queuesvc implements the Queue service: the operations of its REST reference over HTTP, on the queues of
// internal/state/queue.
//
// operations.go is the index: one row per operation, under its name in the reference, with its handler. Handlers are in
// service_level.go (listing, service properties, statistics, preflight), queue.go (queues, their metadata and access
// policies), messages.go (putting, getting, peeking, clearing) and message.go (updating and deleting one). names.go
// parses paths, body.go parses a message from XML, params.go parses query parameters, errors.go lists the errors.
//
// https://learn.microsoft.com/rest/api/storageservices/queue-service-rest-api
package queuesvc
