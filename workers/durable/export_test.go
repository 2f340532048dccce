package durable

import (
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// NewGoExecutor returns the executor of an app with these functions, for tests that have a backend and no app.
func NewGoExecutor(workflows map[string]func(*Context) (any, error),
	activities map[string]engine.Activity) backend.Executor {
	return &goExecutor{workflows: workflows, activities: activities}
}

// Hub returns what a client is made of, for tests that share helpers with those of the hub.
func (c *Client) Hub() *hub.Client { return c.hub }
