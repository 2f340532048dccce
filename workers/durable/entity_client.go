package durable

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// SignalEntity sends an operation to an entity, which it creates if need be, and does not wait for it. Signals that one
// client sends one after the other arrive in that order. A signal whose call has returned without an error is not lost,
// and has its effect once.
func (c *Client) SignalEntity(ctx context.Context, id, operation string, o entity.SignalOptions) error {
	return c.hub.SignalEntity(ctx, id, operation, hub.SignalOptions(o))
}

// Entity returns an entity, with its state if that is wanted.
func (c *Client) Entity(ctx context.Context, id string, state bool) (*entity.Info, error) {
	e, err := c.hub.Entity(ctx, id, state)
	return (*entity.Info)(e), err
}

// QueryEntities returns a page of entities, in the order of their IDs. A page can be empty though others follow: next
// is the position at which the next page begins, for the query's Continuation, and empty after the last page.
func (c *Client) QueryEntities(ctx context.Context, q entity.Query) (page []*entity.Info, next string, err error) {
	got, err := c.hub.QueryEntities(ctx, hub.EntityQuery(q))
	if err != nil {
		return nil, "", err
	}
	for _, e := range got.Entities {
		page = append(page, (*entity.Info)(e))
	}
	return page, got.Continuation, nil
}

// PurgeEntity removes an entity that has neither state nor lock nor messages. It is false if there is no such entity,
// and returns ErrNotCompleted if the entity has any of them.
func (c *Client) PurgeEntity(ctx context.Context, id string) (bool, error) {
	return c.hub.PurgeEntity(ctx, id)
}
