// Package forward passes requests from one node of a cluster to another one, over the connections of the cluster.
//
// # Why
//
// Every node serves every request. But if several nodes append to a log at the same time, one of them is first, and the
// others run their changes again. So a node passes a request that may change something to the log's home, which is the
// node beside the leader of the log's stream. The home is a hint: what a record means depends on the log alone. Two
// homes, or a home that is not beside the leader any more, cost only repetitions.
//
// # An exchange
//
// The node that a client has asked sends the request as one message: method, address, headers, the address of the
// client, and a body of at most [MaxBody] bytes. It does not check the credential. The home does that as for its own
// clients: the host, the path and the headers are those that the client has signed. The answer comes in one message, or
// in several if it is long; at most [window] of them are under way.
//
// A request is passed on once: at the home its context has a mark (Config.Mark), which no client can send.
//
// # Failures
//
// A request that no node has received is served where it arrived, as are all requests while the home is unknown, does
// not answer, or refuses because its disk is full. If the home is lost after it may have received the request, the
// outcome is unknown, as after an append whose acknowledgement is lost. While a request takes long, its node asks the
// home whether it is still at work.
//
// # Front-ends
//
// A [Front] is on a process without data. It passes all requests on, reads too, and knows from the nodes themselves
// what they serve. Bodies that are too large for one message follow in parts: the home asks for as many as it has room
// for, [uploadWindow] at first, and for another one when its handler has read one. A request without any of its body is
// refused or served like another one; so one that is not taken can go to the next node.
//
// The messages are not needed by a node of an earlier release, which has no subscription: then no node receives the
// request.
//
// Where to start: [Forwarder.Forward], then serve.go, then front.go.
package forward
