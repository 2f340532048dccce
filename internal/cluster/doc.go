// Package cluster makes embedded NATS servers nodes of a cluster: who may take part, which nodes are connected, what
// each of them has, and how one is removed. The servers' JetStream decides who leads. This page explains the whole of
// a cluster; each part has a package comment of its own.
//
//	what                                        where
//	who may connect, and as whom                peering
//	the servers, and ends of streams for reads  internal/nats/natsserver
//	tables, queues, metadata of blobs           internal/storage/replog, which internal/storage/store applies
//	content of blobs                            mirror; contentstream on an external NATS
//	requests for the home of a log              forward
//	front-ends, which have no data              front.go
//	membership, status, damage, removal         this package
//
// # Forming
//
// A [Node] belongs to a server of package natsserver, whose start calls it ([Node.Join]). It joins by a loop: the
// server starts with the identity that the folder has, meets the others, and starts again once it has become a member,
// since what a server presents to others is fixed when it starts. Raft trusts a member to remember what it has
// acknowledged, so a member is a name and an incarnation of its folder: a node with an emptied folder is another one.
//
// # Writing
//
// Every node serves every client. A write is a record at the end of a replicated log, of which there is one a service:
// a JetStream stream with a copy on each node, acknowledged by a majority. A record names the record before it that its
// writer had applied, and has no effect if another one came between; the writer then runs its closures again. So that
// this is rare, nodes pass requests that may write on to the node beside the log's leader. All nodes
// apply the same records in the same order to a database of their own. Content goes to the other nodes first, straight
// to their files, and the record that refers to it is appended when a majority has it on disk.
//
// # Reading
//
// A read is answered from the node's own database once that has everything that had been acknowledged when the read
// began: the leader of the log says where it ends, and a majority confirms the leader's term ([natsserver.ReadIndex]).
// Content that the node does not have yet comes from a node that has it.
//
// # Failing and coming back
//
// A node without a majority refuses requests and waits. A node that was away reads what it missed from the log, or
// loads a snapshot if the log does not reach back so far. Before the server reads its folder, all files of its streams
// are verified: a node that has forgotten what it had acknowledged must not vote, so it leaves (damage.go) and joins
// as a new member. An operator removes a node that does not come back ([Node.Remove]), which is refused while a stream
// has no majority of current copies (copies.go).
//
// # After the start
//
// The node watches its connections, answers the other nodes, and compares clocks (watch.go).
//
// Where to start: [Node.Form], then watch.go.
package cluster
