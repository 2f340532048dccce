package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/azurite"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// importAzurite is `lazuli import --azurite`: into a new data folder, or into the account of --connection-string. The
// variables with connection strings do not count, since they may name the Azurite that is left.
func (m *Main) importAzurite(cmd *cobra.Command, source string, account func() (accountarchive.Account, error)) error {
	// They are flags of the same verb for archives. Ignored, they would let everything be imported, or overwritten.
	for _, name := range []string{"only", "overwrite", "verify"} {
		if cmd.Flags().Changed(name) {
			return console.Usagef("--%s is not for --azurite", name)
		}
	}
	online := cmd.Flags().Changed("connection-string")
	if online && cmd.Flags().Changed("location") {
		return console.Usagef("--location and --connection-string are two targets: give one")
	}
	f, err := azurite.Open(source)
	if err != nil {
		return err
	}
	progress := func(done, all int) { fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d requests\n", done, all) }
	var r azurite.Result
	into := ""
	if online {
		a, err := account()
		if err != nil {
			return err
		}
		// A folder of Azurite may have several accounts, of which a running account takes one.
		name, err := accountOf(cmd.Flags().Lookup("connection-string").Value.String(), f)
		if err != nil {
			return err
		}
		into = a.Address
		r, err = f.Import(cmd.Context(),
			azurite.Options{Targets: map[string]azurite.Account{name: {Tables: a.Tables, Queues: a.Queues, Blobs: a.Blobs}},
				Progress: progress})
		if err != nil {
			return fmt.Errorf("import into %s: %w", into, err)
		}
	} else {
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
		if err != nil {
			return console.Usage(err)
		}
		into = c.Location
		// Without a server: only records of its own making can have the times and identifiers that Azurite gave.
		r, err = f.IntoFolder(cmd.Context(), into,
			azurite.FolderOptions{Log: slog.New(
				slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})), Progress: progress})
		switch {
		case errors.Is(err, azurite.ErrNotEmpty):
			return fmt.Errorf("%w: give another folder with --location, or the account of a running server with "+
				"--connection-string", err)
		case err != nil:
			return fmt.Errorf("import into %s: %w", into, err)
		}
	}
	return reportAzurite(cmd, f, r, into)
}

// accountOf returns which account of the folder goes to the account of a connection string: the one of its name, or the
// only one.
func accountOf(text string, f *azurite.Folder) (string, error) {
	settings, err := connstr.Parse(text)
	if err != nil {
		return "", err
	}
	names := f.Accounts()
	switch {
	case slices.Contains(names, settings.Account):
		return settings.Account, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("the folder has the accounts %s, but no account %s", strings.Join(names, ", "),
		settings.Account)
}

// reportAzurite prints what was imported and what was not.
func reportAzurite(cmd *cobra.Command, f *azurite.Folder, r azurite.Result, into string) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s with %s and %s, %s with %s, %s with %s: imported into %s\n",
		console.Count(r.Containers, "container"),
		console.Count(r.Blobs, "blob"), console.Count(r.Snapshots, "snapshot"),
		console.Count(r.Queues, "queue"), console.Count(r.Messages, "message"), console.Count(r.Tables, "table"),
		console.Count(r.Entities, "entity"), into)
	if r.Uncommitted > 0 {
		fmt.Fprintln(out, console.Count(r.Uncommitted, "uncommitted block")+" imported, which the service keeps for a week")
	}
	if r.Expired > 0 {
		fmt.Fprintln(out, console.Count(r.Expired, "message")+" left out, because the time to live has ended")
	}
	// The folder has names but no keys: without them the server would not know the accounts that were just imported.
	if names := slices.DeleteFunc(f.Accounts(),
		func(name string) bool { return name == connstr.DevelopmentAccount }); len(names) > 0 {
		fmt.Fprintf(out, "The server needs keys for %s: AZURITE_ACCOUNTS, or --accounts-file\n", strings.Join(names, ", "))
	}
	for _, missing := range r.Missing {
		fmt.Fprintln(cmd.ErrOrStderr(), "not imported: "+printable.Line(missing))
	}
	if n := len(r.Missing); n > 0 {
		// The exit code says that something is missing, after everything that could be imported was.
		return fmt.Errorf("%s could not be imported; the rest was", console.Count(n, "item"))
	}
	return nil
}
