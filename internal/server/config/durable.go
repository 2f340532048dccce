package config

import (
	"errors"
	"fmt"
	"net"
)

// Durable says whether and where workflows of the Durable Task SDKs are served.
type Durable struct {
	// Enabled serves them.
	Enabled bool
	// Listen is the address of the gRPC endpoint.
	Listen string
	// Hub is the task hub of calls that name none.
	Hub string
	// Hubs are the only task hubs; none: hubs are made at the first call that names them.
	Hubs []string
	// Account is the one whose storage has the hubs; "" is the first.
	Account string
	// Token must come with every call; "" for none.
	Token string
}

func (d *Durable) validate() error {
	_, _, err := net.SplitHostPort(d.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("durable-listen: %w", err)
	case !d.Enabled && (d.Token != "" || d.Account != ""):
		return errors.New("durable-token and durable-account are about workflows: set durable")
	}
	return nil
}
