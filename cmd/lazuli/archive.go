package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newExportCommand makes `lazuli export`, which copies an account to a folder.
func newExportCommand() *cobra.Command {
	var s accountarchive.Selection
	cmd := &cobra.Command{
		Use:   "export FOLDER",
		Short: "Copy an account's tables, queues and blobs to a folder",
		Long: `Copy an account's tables, queues and blobs to a folder, from Lazuli, Azurite or Azure. The command
creates the folder, or continues an interrupted export in it. docs/export-import.md describes the files, and what the protocol does not show.

The command lists items that it cannot read, such as archived blobs, and then exits with code 1; all other items
are exported.`,
		Example: `  lazuli export backup
  lazuli export backup --only container/photos --only table`,
		Args: cobra.ExactArgs(1),
	}
	account := archiveAccount(cmd)
	cmd.Flags().StringArrayVar(&s.Only, "only", nil,
		"table, queue, container, or one of these with a name, such as container/photos; can be repeated (default: "+
			"everything)")
	cmd.Flags().BoolVar(&s.Versions, "versions", false, "also export previous versions of blobs")
	cmd.Flags().BoolVar(&s.Receive, "receive", false,
		"receive the messages of queues, which hides them for ten minutes and adds one to their dequeue count; otherwise "+
			"export what Peek Messages shows")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Before the connection string is looked at: what was mistyped on the command line comes first.
		if err := s.Check(); err != nil {
			return console.Usagef("--only: %w", err)
		}
		a, err := account()
		if err != nil {
			return err
		}
		options, end := progress(cmd, "exported")
		m, err := accountarchive.Export(cmd.Context(), a, args[0], s, options)
		// Ends the line of progress, so that the messages below begin a line of their own.
		end()
		if err != nil {
			return continued(cmd.Context(), err)
		}
		for _, r := range m.Resources {
			// On standard error, one a line: with --json standard output is one object.
			for _, missing := range r.Missing {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s %s: not exported: %s: %s\n", r.Kind, r.Name, printable.Line(missing.Item),
					printable.Line(missing.Reason))
			}
		}
		items := 0
		for _, r := range m.Resources {
			for _, s := range r.Segments {
				items += s.Items
			}
		}
		if err := output(struct {
			Folder    string `json:"folder"`
			Source    string `json:"source"`
			Resources int    `json:"resources"`
			Items     int    `json:"items"`
			Missing   int    `json:"missing"`
		}{args[0], m.Source, len(m.Resources), items, m.Missing()}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of %s exported to %s\n", console.Count(items, "item"), console.Count(len(m.Resources),
				"resource"),
				args[0])
			return err
		}); err != nil {
			return err
		}
		// An error after the report: the archive is usable, and a script must still learn that it is not all.
		if n := m.Missing(); n > 0 {
			return fmt.Errorf("%s could not be exported", console.Count(n, "item"))
		}
		return nil
	}
	return cmd
}

// newImportCommand makes `lazuli import`, which copies a folder of `lazuli export` to an account.
func newImportCommand(m *Main) *cobra.Command {
	var o accountarchive.ImportOptions
	var verify, fromAzurite bool
	cmd := &cobra.Command{
		Use:   "import FOLDER",
		Short: "Import an exported folder, or a data folder of Azurite, into an account",
		Long: `Copy a folder that ` + "`lazuli export`" +
			` wrote to an account on Lazuli, Azurite or Azure. The command checks each file
before it writes anything of it, and notes its progress in the folder: run it again to continue an interrupted import.

With --azurite, FOLDER is a data folder of Azurite. The command converts it into a new data folder of Lazuli, --location, and keeps the times of
blobs, messages and entities, and the identifiers of snapshots. Stop Azurite, and any server on the new folder, first. With --connection-string,
the command writes into a running account instead; times are then those of the import.`,
		Example: `  lazuli import backup --connection-string "$OTHER"
  lazuli import backup --verify
  lazuli import --azurite ~/azurite --location lazuli-data`,
		Args: cobra.ExactArgs(1),
	}
	account := archiveAccount(cmd)
	cmd.Flags().StringArrayVar(&o.Only, "only", nil,
		"table, queue, container, or one of these with a name, such as container/photos; can be repeated (default: "+
			"everything)")
	cmd.Flags().BoolVar(&o.Overwrite, "overwrite", false,
		"write into tables, queues and containers that exist; entities and blobs are replaced, messages are added")
	cmd.Flags().BoolVar(&verify, "verify", false, "only check the files of the archive")
	cmd.Flags().BoolVar(&fromAzurite, "azurite", false, "the folder is a data folder of Azurite")
	config.AddFlags(cmd.Flags(), "location")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Flags of both ways are on one verb; those that do not belong to a way are refused, and not ignored.
		if fromAzurite {
			return m.importAzurite(cmd, args[0], account)
		}
		if cmd.Flags().Changed("location") {
			return console.Usagef("--location is for --azurite: an archive is imported into a running account, " +
				"--connection-string")
		}
		// Needs no account, so this comes before the connection string.
		if verify {
			m, err := accountarchive.Verify(args[0])
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s of %s, exported %s: intact\n", console.Count(len(m.Resources), "resource"),
					m.Source,
					m.Finished.Format("2006-01-02 15:04:05 MST"))
			}
			return err
		}
		if err := o.Check(); err != nil {
			return console.Usagef("--only: %w", err)
		}
		a, err := account()
		if err != nil {
			return err
		}
		var end func()
		o.Options, end = progress(cmd, "imported")
		r, err := accountarchive.Import(cmd.Context(), a, args[0], o)
		end()
		if err != nil {
			return continued(cmd.Context(), err)
		}
		reportImport(cmd, r)
		return output(struct {
			Items        int `json:"items"`
			Expired      int `json:"expired"`
			LostVersions int `json:"lostVersions"`
			Missing      int `json:"missing"`
		}{r.Items, r.Expired, r.LostVersions, r.Missing}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, console.Count(r.Items, "item")+" imported")
			return err
		})
	}
	return cmd
}

// reportImport prints what an import has left out.
func reportImport(cmd *cobra.Command, r accountarchive.Result) {
	for _, note := range []struct {
		n    int
		what string
	}{{r.Expired, "expired messages were not put"},
		{r.LostVersions, "previous versions were not kept, since the account has no versioning"},
		{r.LostAccess, "access control lists were not kept, since the account has no hierarchical namespace"},
		{r.Missing, "items are not in the archive, since the export could not read them"}} {
		if note.n > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d %s\n", note.n, note.what)
		}
	}
}

// archiveAccount adds --connection-string to cmd and returns how to open the account.
func archiveAccount(cmd *cobra.Command) func() (accountarchive.Account, error) {
	connection := target.AccountFlag(cmd)
	return func() (accountarchive.Account, error) {
		text, err := connection()
		if err != nil {
			return accountarchive.Account{}, err
		}
		return openArchiveAccount(text)
	}
}

// openArchiveAccount opens the account of a connection string.
func openArchiveAccount(text string) (a accountarchive.Account, err error) {
	storage, err := target.OpenStorage(text)
	if err != nil {
		return a, err
	}
	settings, err := connstr.Parse(text)
	if err != nil {
		return a, err
	}
	dfs, err := settings.Lake(connstr.Options{})
	if err != nil && settings.BlobEndpoint != "" {
		return a, err
	}
	return accountarchive.Account{Address: cmp.Or(settings.BlobEndpoint, settings.QueueEndpoint, settings.TableEndpoint),
		Lake: dfs, Tables: storage.Tables, Queues: storage.Queues, Blobs: storage.Blobs}, nil
}

// progress prints the lines of an export or import, and below them at a terminal the rate.
func progress(cmd *cobra.Command, what string) (o accountarchive.Options, end func()) {
	m := console.NewMeter(cmd, what, console.BytesUnit)
	line := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), printable.Line(text)) }
	if m != nil {
		line = func(text string) { m.Line(printable.Line(text)) }
	}
	return accountarchive.Options{Progress: line, Bytes: m.At}, m.End
}

// continued says what to do about an export or import that ended early.
func continued(ctx context.Context, err error) error {
	return console.Interrupted(ctx, err, "run the command again to continue")
}
