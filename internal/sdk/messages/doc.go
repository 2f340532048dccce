// Package messages puts, receives and deletes messages of a queue for workers, with fewer requests where the service
// supports the extensions of docs/extensions.md: one request that waits for messages in place of polls, one that puts
// several messages, one that deletes several. On other services it sends the requests of the REST API alone.
package messages
