// Package natsserver provides the process's NATS server: an embedded server with JetStream that is used in process and
// opens no port, or a connection to an existing server or cluster. With Config.Member the embedded server is a node of
// a cluster, see package cluster.
//
// # Durability
//
// JetStream writes an acknowledged message to its file, but by default leaves the sync to the operating system for up
// to two minutes: a killed process loses nothing, but a power failure does. The embedded server syncs each message, but
// not the names of new files: [Server.Settle] does that. It refuses everything after a failed write until it was
// started again, see [Server.Failed].
//
// For an external NATS the server's own configuration applies (sync_interval: always, replicas).
//
// Where to start: [Start], [Config].
package natsserver
