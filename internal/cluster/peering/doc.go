// Package peering decides which processes form a cluster: it has the identity of a node, the credentials of the
// connections between nodes, and the rules by which a node accepts another one. It does not replicate anything.
//
// # Identity
//
// A cluster has a random ID, and each node has a name, which the operator gives, and a random incarnation, which
// belongs to the data folder. Both are in a file of the data folder. Raft depends on what a node has stored, so a node
// whose folder was lost is another member than before, even if it has the same name: it gets a new incarnation, and the
// other nodes accept it only after the old one was removed ([Site.Forget]).
//
// # Founding and joining
//
// The first node of the list of peers, in the order of the names, founds the cluster: it makes up the ID if no peer has
// one. The other nodes take the ID of a peer. A node that joins connects to the founder and to members, which decide,
// and accepts only other nodes that join. Nodes with empty folders elect a leader only if all nodes take part, so the
// first start of a cluster needs all of them.
//
// # Admission
//
// A node presents a [Hello] when it connects to another one. [Site.Admit] checks it: secret, cluster, name,
// incarnation, and the versions of the format that both understand. A Hello is written when a process starts, so what
// it says about other nodes may be old: only the node that is connected to decides. Members connect in both directions,
// so that each one learns, and logs, why the other one is not accepted.
//
// Where to start: [Open], [Site.Admit].
package peering
