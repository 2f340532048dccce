// Package messages receives and deletes messages of a queue for workers, with fewer requests where the service supports
// the extensions of docs/extensions.md: one request that waits for messages in place of polls, and one that deletes
// several messages. On other services it sends the requests of the REST API alone.
package messages
