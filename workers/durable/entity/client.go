package entity

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
)

// ID returns the ID of an entity, "@name@key". Names do not differ by case; the SDKs write them in lower case.
func ID(name, key string) string { return hub.EntityID(name, key) }

// SignalOptions are the options of durable.Client.SignalEntity.
type SignalOptions struct {
	// Input is JSON; empty for none.
	Input string
	// At is the time at which the signal arrives. Default: at once.
	At time.Time
	// RequestID identifies the signal: sent again under the same one within an hour, for instance after an error, it has
	// its effect once. Default: a random one.
	RequestID string
}

// Info is the state of an entity.
type Info struct {
	// ID is "@name@key".
	ID string
	// State holds what the entity keeps, in the form of its worker; nil if it has none, or was not asked for.
	State *string `json:",omitempty"`
	// LastModified is the time at which the entity has handled its last message.
	LastModified time.Time
	// LockedBy is the workflow that has locked the entity; empty if none has.
	LockedBy string `json:",omitempty"`
	// Backlog is the number of messages that wait, up to 1,000. Queries leave it out.
	Backlog int
}

// Query selects entities.
type Query struct {
	// Prefix is the beginning of the IDs: "@counter@" for all counters.
	Prefix string
	// From and To bound the time of the last change, the second one exclusively; zero: unbounded.
	From, To time.Time
	// State includes the states.
	State bool
	// Empty includes entities without a state.
	Empty bool
	// Top bounds the entities of one page, 1 to 1,000. Default 100.
	Top int
	// Continuation is the position at which the page begins: what QueryEntities has returned with the page before.
	Continuation string
}
