package main

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/azurite"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// addServe makes cmd the verb that runs the services. It is `lazuli serve` and `lazuli` alone.
func addServe(cmd *cobra.Command, m *Main) *cobra.Command {
	return addServeOf(cmd, m, "")
}

// addServeOf makes cmd the verb that runs one service, as Azurite's programs azurite-blob, azurite-queue and
// azurite-table do, or all for "".
func addServeOf(cmd *cobra.Command, m *Main, service string) *cobra.Command {
	cmd.Args = cobra.NoArgs
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		began := time.Now()
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ, Service: service})
		if err != nil {
			return console.Usage(err)
		}
		if source := c.Location; !c.InMemory {
			if service != "" { // its data is in a folder of the service's name, which Azurite does not make
				source = filepath.Dir(source)
			}
			if err := azurite.Check(c.Location, source); err != nil {
				return err
			}
		}
		return serve.Run(cmd.Context(), c, m.start, m.Stdout, m.Stderr, began)
	}
	return cmd
}
