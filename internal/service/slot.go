// Package service is the door between the three services and the rest of this module.
//
// tablesvc, queuesvc and blobsvc are public: a program outside configures them with plain types, and serves a handler.
// The server of this repository gives them more (the accounts of all services, a replicated log, a board to wait on),
// and takes more from them (the state, for backups, metrics and repairs), in internal types, which no exported name of
// a public package may have. Each public Config and Service therefore embeds a [Slot] under an unexported name, which
// any package of this module reaches by [Put], [Get] and [Open], and no other program:
//
//	tables, err := service.Open(tablesvc.New, &tablehost.Config{...}) // in place of the public fields
//	state := service.Get(tables).State                                // of *tablehost.Parts
//
// What is in the slots is in tablehost, queuehost and blobhost, one package for each, so that a program with one
// service does not link the states of the others. [Alone] is how a service runs that was given no such configuration.
package service

// Slot holds a value of a public type that only this module may see. It is embedded as
//
//	type parts = service.Slot[tablehost.Parts]
//
// under an unexported name: its method is unexported too, so a program outside sees neither.
type Slot[T any] struct{ value *T }

func (s *Slot[T]) slot() *Slot[T] { return s }

// holder is a pointer to a type that embeds a Slot.
type holder[T any] interface{ slot() *Slot[T] }

// Put sets the value in the slot of h.
func Put[T any](h holder[T], value *T) { h.slot().value = value }

// Get returns the value in the slot of h; nil if none was put there.
func Get[T any](h holder[T]) *T { return h.slot().value }

// Open opens a service by the New of its package, with a configuration that only this module can give.
func Open[Config, Service, T any, P interface {
	*Config
	holder[T]
}](open func(Config) (Service, error), given *T) (Service, error) {
	var c Config
	Put(P(&c), given)
	return open(c)
}
