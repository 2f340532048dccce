package target

import (
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// DataFolder is the data folder that a command works on: its argument, or the one that serve would use.
func DataFolder(cmd *cobra.Command, environ []string, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: environ})
	if err != nil {
		return "", console.Usage(err)
	}
	return c.Location, nil
}
