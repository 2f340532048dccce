// Package natsserver provides the process's NATS server: an embedded server with JetStream that is used in process and
// opens no port, or a connection to an existing server or cluster.
//
// # Durability
//
// JetStream writes an acknowledged message to its file, but by default leaves the sync to the operating system for up
// to two minutes: a killed process loses nothing, but a power failure does. Its option SyncAlways syncs after every
// single message. This package shares syncs instead: the embedded server runs without SyncAlways, and a publisher calls
// [Server.Sync] with the stream's name before it acknowledges a change. Calls that arrive while a sync of the same
// stream is running share the next one (see [syncer]), so that thirty-two callers wait hardly longer than one.
//
// For an external NATS the server's own configuration applies (sync_interval: always, replicas), and Sync does nothing.
//
// Where to start: [Start], [Config].
package natsserver
