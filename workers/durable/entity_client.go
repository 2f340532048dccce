package durable

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
)

// EntityID returns the ID of an entity, "@name@key". Names do not differ by case; the SDKs write them in lower case.
func EntityID(name, key string) string { return hub.EntityID(name, key) }

// SignalOptions are the options of [Client.SignalEntity].
type SignalOptions struct {
	// Input is JSON; empty for none.
	Input string
	// At is the time at which the signal arrives. Default: at once.
	At time.Time
	// RequestID identifies the signal: sent again under the same one within an hour, for instance after an error, it has
	// its effect once. Default: a random one.
	RequestID string
}

// SignalEntity sends an operation to an entity, which it creates if need be, and does not wait for it. Signals that one
// client sends one after the other arrive in that order. A signal whose call has returned without an error is not lost,
// and has its effect once.
func (c *Client) SignalEntity(ctx context.Context, id, operation string, o SignalOptions) error {
	return c.hub.SignalEntity(ctx, id, operation, hub.SignalOptions(o))
}

// EntityInfo is the state of an entity.
type EntityInfo struct {
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

// Entity returns an entity, with its state if that is wanted.
func (c *Client) Entity(ctx context.Context, id string, state bool) (*EntityInfo, error) {
	e, err := c.hub.Entity(ctx, id, state)
	return (*EntityInfo)(e), err
}

// EntityQuery selects entities.
type EntityQuery struct {
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
	// Continuation is the position at which the page begins: EntityPage.Continuation of the page before.
	Continuation string
}

// EntityPage is a part of a query's result.
type EntityPage struct {
	Entities []*EntityInfo
	// Continuation is the position at which the next page begins; empty after the last page.
	Continuation string
}

// QueryEntities returns a page of entities, in the order of their IDs. A page can be empty though others follow.
func (c *Client) QueryEntities(ctx context.Context, q EntityQuery) (*EntityPage, error) {
	got, err := c.hub.QueryEntities(ctx, hub.EntityQuery(q))
	if err != nil {
		return nil, err
	}
	page := &EntityPage{Continuation: got.Continuation}
	for _, e := range got.Entities {
		page.Entities = append(page.Entities, (*EntityInfo)(e))
	}
	return page, nil
}

// PurgeEntity removes an entity that has neither state nor lock nor messages. It is false if there is no such entity,
// and returns ErrNotCompleted if the entity has any of them.
func (c *Client) PurgeEntity(ctx context.Context, id string) (bool, error) {
	return c.hub.PurgeEntity(ctx, id)
}
