package main

import (
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/server/config"
)

// folder is the data folder that a command works on: its argument, or the one that serve would use.
func (m *Main) folder(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
	if err != nil {
		return "", console.Usage(err)
	}
	return c.Location, nil
}
