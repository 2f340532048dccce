// Package durable: the executor of workflows in Go by itself. .ci/durable adds this file to the package.
package durable

import (
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/workers/engine"
)

// NewExecutor returns an executor of functions.
func NewExecutor(workflows map[string]func(*Context) (any, error),
	activities map[string]engine.Activity) backend.Executor {
	return &goExecutor{workflows: workflows, activities: activities}
}
