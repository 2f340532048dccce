package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/devcert"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newDurableServeCommand makes `lazuli durable serve`, the gRPC endpoint apart from the storage services.
func newDurableServeCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve workflows of the Durable Task SDKs, kept in any storage account",
		Long: `Serve workflows of the Durable Task SDKs for Python, JavaScript, Java, .NET and Go (gRPC), kept in any storage account. Any number of
such processes share the work of a hub. A call's metadata "taskhub" names its hub.

lazuli serve --durable does so inside the server.`,
		Example: "  lazuli durable serve\n  lazuli durable serve --connection-string \"$AZURE\" --durable-listen " +
			"127.0.0.1:4002 --durable-hub orders",
		Args: cobra.NoArgs,
	}
	open := target.StorageFlag(cmd)
	logFormat := cmd.Flags().String("log-format", "text", "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: append(m.Environ, "LAZULI_DURABLE=true")})
		if err != nil {
			return console.Usage(err)
		}
		log, err := workerproc.NewLog(cmd.ErrOrStderr(), *logFormat, slog.LevelInfo)
		if err != nil {
			return err
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		var sec serve.Security
		if c.Cert != "" {
			if sec.TLS, err = devcert.ServerConfig(c.Cert, c.Key); err != nil {
				return console.Usage(err)
			}
		}
		d, err := serve.OpenDurable(storage, &c.Config, &sec, nil, nil, log, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Durable workflows at %s. Ctrl-C stops.\n", d.Address)
		return d.Wait(cmd.Context())
	}
	config.AddFlags(cmd.Flags(), config.DurableOptions()...)
	return cmd
}
