// Package cluster makes embedded NATS servers nodes of a cluster: who may take part, which nodes are connected, what
// each of them has, and how one is removed. The servers' JetStream decides who leads.
//
// A [Node] belongs to a server of package natsserver, whose start calls it ([Node.Join]). Package peering has the
// identity of a node and what it knows of the others. It joins by a loop: the server starts with the identity that the
// folder has, meets the others, and starts again once it has become a member, since what a server presents to others is
// fixed when it starts. From then on the node watches its connections, answers the other nodes, and compares clocks.
//
// Before the server reads the folder, all files of its streams are verified: a node that has forgotten what it had
// acknowledged must not vote.
//
// Where to start: [Node.Form], then watch.go.
package cluster
