package main

import (
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newOpenCommand makes `lazuli open`, which opens the dashboard of a running server in the browser.
func newOpenCommand(m *Main) *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the dashboard of a running server in the browser",
		Long: `Open the dashboard of a server that runs on this machine. --admin-host and --admin-port say where its admin
listener is. The command always prints the address. A server that has accounts with secret keys prints its own
address with a token when it starts; if LAZULI_ADMIN_TOKEN is set to that token, this command uses it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
			if err != nil {
				return console.Usage(err)
			}
			address := "http://" + exposure.Callable(c.Admin.Address()) + "/"
			// A browser that cannot connect shows its own page, which does not say that no server runs.
			if err := askReady(cmd.Context(), address+"readyz", io.Discard); err != nil {
				return err
			}
			// The login page sets a cookie and redirects, so that the token does not stay in the address.
			if c.AdminToken != "" {
				address += strings.TrimPrefix(admin.LoginPath, "/") + "?token=" + url.QueryEscape(c.AdminToken)
			}
			// Printed before the browser starts: over ssh none may start, and the address is still useful.
			fmt.Fprintln(cmd.OutOrStdout(), address)
			if printOnly {
				return nil
			}
			if err := browse(address); err != nil {
				return fmt.Errorf("cannot start the browser; open the address manually: %w", err)
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the address and start no browser")
	return cmd
}

// browse starts the user's browser.
func browse(address string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", address).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", address).Run()
	}
	return exec.Command("xdg-open", address).Run()
}
