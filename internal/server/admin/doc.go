// Package admin serves what an operator asks of a process: whether it is alive (/healthz), whether it serves
// (/readyz), its counters (/metrics), what its workers do (/workers), and, if asked for, Go's profiles (/debug/pprof/) and development tokens (/oauth/).
//
// # Who may ask
//
// The listener has no authentication: it is for the machine itself, on a loopback address by default. A web page in a
// browser on that machine must not reach it, neither by a request across origins nor by a name of its own that it
// resolves to 127.0.0.1 (DNS rebinding). So a request is refused unless its Host is an IP address, localhost, or a name
// that was allowed; and if it carries an Origin, that must be such a host too.
package admin
