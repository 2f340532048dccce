// Package durable: the hub of the engine by itself. .ci/durable adds this file to the package.
package durable

import (
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
)

// HubOptions are the settings of a hub.
type HubOptions = hub.Options

// NewHub returns the backend of a hub.
func NewHub(o HubOptions) (backend.Backend, error) { return hub.New(o) }
