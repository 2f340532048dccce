// Package workkind says which work of a hub a process takes: the engine of workers/durable asks, the endpoint for
// workers answers for those that are connected.
package workkind

// Kind is the kind of work that a worker takes. Messages and the lists of apps' functions have it as text.
type Kind string

// The kinds of work.
const (
	Orchestration Kind = "orchestration"
	Activity      Kind = "activity"
	Entity        Kind = "entity"
)

// Acceptor is an executor that does not take all work. Work that it does not take waits, and is offered again after
// Backend.Offer of package hub.
type Acceptor interface {
	// Accepts reports whether the executor takes work of the name and version, which is empty for work without one.
	Accepts(kind Kind, name, version string) bool
}
