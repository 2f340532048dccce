package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/devcert"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/workers"
)

// newDurableServeCommand makes `lazuli durable serve`, the gRPC endpoint apart from the storage services.
func newDurableServeCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve workflows of the Durable Task SDKs, stored in any storage account",
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
		// The verb says it already; without the variable, options such as durable-token would be refused as useless.
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
		hubs := append([]string{c.Durable.Hub}, c.Durable.Hubs...)
		// Before the port is open: workers that are refused later connect again and again.
		if err := refuseForeignHubs(cmd.Context(), storage, hubs, log); err != nil {
			return err
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

// checkTime bounds the requests of refuseForeignHubs.
const checkTime = 10 * time.Second

// refuseForeignHubs returns an error if one of the hubs is one of another engine. Their calls are refused later too,
// but workers connect again and again then, and say little. An account that does not answer does not stop the start: it
// may come back.
func refuseForeignHubs(ctx context.Context, storage *workers.Storage, names []string, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	for _, name := range names {
		hub, err := hubname.Stored(name)
		if err != nil {
			return console.Usage(err)
		}
		r, err := taskhub.NewReader(ctx, taskhub.Options{Storage: storage, Hub: hub})
		switch {
		case errors.Is(err, record.ErrHubNotFound): // It is made at the first call.
		case err != nil:
			log.Warn("cannot read the task hub yet", "hub", name, "err", sdkerr.Short(err))
		case r.Engine() != taskhub.EngineLazuli:
			return fmt.Errorf("%w: %q is one of %s (DTFx, or Durable Functions in .NET); nothing is written to it; "+
				"choose another one with --durable-hub", record.ErrForeignHub, name, r.Engine())
		}
	}
	return nil
}
