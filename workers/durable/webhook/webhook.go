// Package webhook serves the HTTP management API of Durable Functions
// (https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api) for the workflows of a Go
// program:
//
//	mux.Handle(webhook.Path, webhook.New(webhook.Options{Client: engine.WaitClient, Hub: "Orders"}))
//
// The handler does no authentication: serve it on a loopback address, or wrap it in a handler that authenticates
// callers.
package webhook

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/inside"
)

// Path is the place where the API is.
const Path = webhook.Path

// Options are the settings of a handler made by [New]. The zero value of a field means its default.
type Options struct {
	// Client returns the client of the hub: the method WaitClient of a durable.Engine, or a function that returns a
	// durable.Client. Its context is the request's, for 10 s at most. Requests are answered with 503 if it returns an
	// error.
	Client func(context.Context) (*durable.Client, error)
	// Hub is the hub's name, for links and the parameter taskHub. Default "default".
	Hub string
	// Connection is the name of the connection setting, for links and the parameter connection. Default "Storage".
	Connection string
	// Workflows are the names of the workflows that can be started; nil: any.
	Workflows []string
	// ReplaceRunning lets a start replace an instance with the same ID that still runs. One that does not run any more is
	// always replaced.
	ReplaceRunning bool
	// MaxBody bounds the body of a request, in bytes. Default 10 MiB.
	MaxBody int64
	// Logger takes the causes of responses with status 500. Default: slog.Default.
	Logger *slog.Logger
}

// New returns the API of a hub. Requests for other hubs or connections are refused with 501.
func New(o Options) http.Handler {
	client := func(ctx context.Context) (*hub.Client, error) {
		c, err := o.Client(ctx)
		if err != nil {
			return nil, err
		}
		return inside.Client(c), nil
	}
	return webhook.New(webhook.Options{Client: client, Hub: o.Hub, Connection: o.Connection, Workflows: o.Workflows,
		ReplaceRunning: o.ReplaceRunning, MaxBody: o.MaxBody, Logger: o.Logger})
}
