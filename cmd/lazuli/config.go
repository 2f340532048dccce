package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newConfigCommand makes `lazuli config`.
func newConfigCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that serve would use, and where each value comes from",
		Long: `Print the configuration that serve would use with these flags, and where each value comes from. The output
is a configuration file for --config: defaults are commented out, and secrets are left out.`,
		Example: `  lazuli config --config lazuli.yaml
  lazuli config init > lazuli.yaml`,
		Args: cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "option, value, source")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// The same sources in the same order as serve, or the output would be true of another program.
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
		if err != nil {
			return console.Usage(err)
		}
		if !*asJSON {
			_, err = io.WriteString(cmd.OutOrStdout(), c.Print())
			return err
		}
		out := console.JSONLines(cmd.OutOrStdout())
		for _, v := range c.Values() {
			if err := out.Encode(v); err != nil {
				return err
			}
		}
		return nil
	}
	config.AddFlags(cmd.Flags())
	cmd.AddCommand(&cobra.Command{Use: "init", Short: "Print an example of a configuration file", Args: cobra.NoArgs,
		Long:    "Print a configuration file with all options, what they mean, and their defaults, as comments.",
		Example: "  lazuli config init > lazuli.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), config.Example())
			return err
		}})
	return cmd
}
