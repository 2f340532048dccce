// Package killrig runs lazuli in child processes that are measured, or killed on purpose. The verbs bench and demo, the
// laboratory and the tests of crashes use it.
//
// A [Process] is any child. A [Server] is one server on its own data folder, with ports of the system's choice. A
// [Node] is a server with addresses that stay the same over restarts, and a [Cluster] is several of them behind a load
// balancer.
package killrig
