// Package queuesvc is the Queue service: the operations of its REST reference over HTTP, on the queues of package
// state.
//
// operations.go is the index: one row per operation, under its name in the reference. From a row its handler is found:
// service_level.go (listing, service properties, statistics, preflight), queue.go (queues, their metadata and access
// policies), messages.go (putting, getting, peeking, clearing), message.go (updating and deleting one). Around them:
// names.go reads paths, body.go reads a message from XML, params.go reads query parameters, errors.go is the
// catalogue of failures.
//
// https://learn.microsoft.com/rest/api/storageservices/queue-service-rest-api
package queuesvc
