// Package admin serves the admin endpoints of a process: liveness (/healthz), readiness (/readyz), metrics (/metrics),
// the state of its workers (/workers), and, if configured, Go's profiles (/debug/pprof/) and development tokens
// (/oauth/).
//
// # Access
//
// The listener is for the local machine, on a loopback address by default. With [Options.Token] everything but health,
// metrics and tokens needs that token. A web page in a browser on that machine must not reach it, neither by a request
// across origins nor by a name that resolves to 127.0.0.1 (DNS rebinding). So a request is refused unless its Host is
// an IP address, localhost, or an allowed name; an Origin header must name such a host too.
package admin
