// Package faultrule makes chosen requests fail on purpose, so that a developer can see what a client does when the
// service throttles, fails, answers slowly, breaks the connection, or applies a write without answering.
//
// A [Rule] defines which requests it matches and how they fail. A [Set] has the rules of a server. The front-end
// calls [Set.Find] for each request once its operation is known and its caller is authorised, and then [Fault.Serve] in
// place of the operation. A set without rules costs one atomic load per request; a server without a set, one comparison
// with nil.
//
// Rules live in memory and end with the process.
package faultrule
