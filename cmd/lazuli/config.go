package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/server/config"
)

// newConfigCommand makes `lazuli config`.
func newConfigCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that serve would use, and where each value comes from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
			if err != nil {
				return usageError{err}
			}
			_, err = io.WriteString(m.Stdout, c.Print())
			return err
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}
