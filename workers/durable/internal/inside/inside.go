// Package inside lets the packages below workers/durable reach what a public client of it is made of, which no exported
// signature may show.
package inside

import "github.com/lazuli-storage/lazuli/internal/durable/hub"

// Client returns the hub's client of a *durable.Client. Package durable sets it.
var Client func(public any) *hub.Client
