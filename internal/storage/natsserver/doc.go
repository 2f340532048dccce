// Package natsserver gives the process its NATS: an embedded server with JetStream that is reached in process and opens no
// port, or a connection to an existing server or cluster.
//
// # Durability
//
// JetStream writes an acknowledged message to its file, but by default leaves it to the operating system for up to
// two minutes: a killed process loses nothing, a power failure does. Its own remedy, SyncAlways, syncs after every
// single message. This package shares syncs instead: the embedded server runs without SyncAlways, and who has
// published calls [Server.Sync] with the stream's name before acknowledging to anybody. Calls that come while a sync
// of the same stream is running share the next one (see [syncer]), so that one caller waits for one fsync and
// thirty-two callers for hardly more.
//
// On an external NATS the server's own configuration decides (sync_interval: always, replicas), and Sync does nothing.
//
// Where to start: [Start], [Config].
package natsserver
