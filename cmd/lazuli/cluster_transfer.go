package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// transfer is a copy of an account between the data folder of a single server and a cluster.
type transfer struct {
	account  func() (string, error) // the connection string of the account in the cluster
	work     string                 // folder of the archive; "" is beside the data folder
	versions bool
	partial  bool
}

// newTransfer adds the flags of a transfer to cmd.
func newTransfer(cmd *cobra.Command) *transfer {
	t := &transfer{account: target.AccountFlag(cmd)}
	cmd.Flags().StringVar(&t.work, "work", "",
		"folder for temporary files; it needs space for everything that is copied (default: FOLDER.transfer)")
	cmd.Flags().BoolVar(&t.versions, "versions", false, "also copy previous versions of blobs")
	cmd.Flags().BoolVar(&t.partial, "partial", false, "copy the rest if some items cannot be read, such as archived blobs")
	return t
}

func newClusterImport() *cobra.Command {
	cmd := &cobra.Command{Use: "import FOLDER",
		Short: "Copy an account from the data folder of a single server into the cluster", Args: cobra.ExactArgs(1),
		Long: `Copy an account, with its service properties, from the data folder of a stopped ` +
			`single server into the cluster, through any node. The
account has the name and key of the connection string, and none of the tables, queues and ` +
			`containers in the cluster. The folder
stays as it is. Run the command once for each account.

docs/export-import.md lists what is copied. A command that was interrupted continues if it is run again.`,
		Example: `  lazuli cluster import ./data --connection-string "$ANY_NODE"`}
	t := newTransfer(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := datadir.OpenExistingShards(args[0]) // checks the folder; the server opens it again
		if err != nil {
			return err
		}
		if err := dir.Close(); err != nil {
			return err
		}
		return t.run(cmd, args[0], func(folder, cluster accountarchive.Account) (from,
			to accountarchive.Account) {
			return folder, cluster
		})
	}
	return cmd
}

func newClusterExport() *cobra.Command {
	cmd := &cobra.Command{Use: "export FOLDER",
		Short: "Copy an account from the cluster into the data folder of a single server", Args: cobra.ExactArgs(1),
		Long: `Copy an account, with its service properties, from the cluster into a data folder that ` +
			`"lazuli serve --location FOLDER" serves alone.
The folder is made, or is that of a stopped server whose account has none of the tables, ` +
			`queues and containers. The cluster stays as it
is; clients should not write meanwhile. Run the command once for each account.

docs/export-import.md lists what is copied. A command that was interrupted continues if it is run again.`,
		Example: `  lazuli cluster export ./data --connection-string "$ANY_NODE"`}
	t := newTransfer(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.run(cmd, args[0], func(folder, cluster accountarchive.Account) (from,
			to accountarchive.Account) {
			return cluster, folder
		})
	}
	return cmd
}

// run serves the folder inside this process and copies the account in one direction.
func (t *transfer) run(cmd *cobra.Command, folder string,
	direction func(folder, cluster accountarchive.Account) (from, to accountarchive.Account)) (err error) {
	text, err := t.account()
	if err != nil {
		return err
	}
	settings, err := connstr.Parse(text)
	if err != nil {
		return err
	}
	if settings.Key.Empty() {
		return console.Usagef("--connection-string must have an account key: the account in the folder gets the " +
			"same one")
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if _, err := peering.ReadIdentity(filepath.Join(folder, "cluster")); err == nil {
		return console.Usagef("%s is the folder of a node of a cluster", folder)
	}
	cluster, err := openArchiveAccount(text)
	if err != nil {
		return err
	}
	// Before the folder is made, which an export does.
	if err := answers(cmd.Context(), cluster); err != nil {
		return err
	}
	alone, err := t.serve(cmd.Context(), folder, settings)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = errors.Join(err, alone.Stop(ctx))
	}()
	local, err := openArchiveAccount(alone.ConnectionStringOf(settings.Account, settings.Key.Reveal()))
	if err != nil {
		return err
	}
	local.Address = "folder " + folder // the ports differ from run to run
	from, to := direction(local, cluster)
	work := t.work
	if work == "" {
		work = strings.TrimRight(folder, string(filepath.Separator)) + ".transfer"
	}
	options, end := progress(cmd, "copied")
	m, result, err := accountarchive.Transfer(cmd.Context(), from, to, work,
		accountarchive.Selection{Versions: t.versions}, t.partial, options)
	end()
	t.report(cmd, m, result)
	if errors.Is(err, accountarchive.ErrPartial) {
		return fmt.Errorf("%w; nothing was written. Run the command again with --partial to copy the rest, or remove %s "+
			"to begin again", err, work)
	}
	if err != nil {
		return continued(cmd.Context(), err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s copied\n", console.Count(len(m.Resources), "table, queue or container"),
		console.Count(result.Items, "item"))
	return nil
}

// answers returns an error if an account does not answer, or refuses its key.
func answers(ctx context.Context, a accountarchive.Account) error {
	var err error
	switch { // a connection string need not have all services
	case a.Blobs != nil:
		_, err = a.Blobs.ServiceClient().GetProperties(ctx, nil)
	case a.Queues != nil:
		_, err = a.Queues.GetServiceProperties(ctx, nil)
	default:
		_, err = a.Tables.GetProperties(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.Address, err)
	}
	return nil
}

// serve serves the account from the folder on free ports.
func (t *transfer) serve(ctx context.Context, folder string, settings connstr.Settings) (*server.Server, error) {
	key, err := auth.ParseKey(settings.Key.Reveal())
	if err != nil {
		return nil, console.Usagef("--connection-string: %w", err)
	}
	// Versioning keeps the versions that are copied into the folder.
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Versioning: t.versions},
		auth.Account{Name: settings.Account, Keys: []auth.Key{key}})
	if err != nil {
		return nil, console.Usagef("--connection-string: %w", err)
	}
	return server.StartContext(ctx, server.Config{Location: folder, Accounts: accounts, PathStyle: true})
}

// report prints what was not copied.
func (t *transfer) report(cmd *cobra.Command, m *accountarchive.Manifest, result accountarchive.Result) {
	if m == nil {
		return
	}
	for _, r := range m.Resources {
		for _, missing := range r.Missing {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s: cannot be copied: %s: %s\n", r.Kind, r.Name,
				printable.Line(missing.Item), printable.Line(missing.Reason))
		}
	}
	reportImport(cmd, result)
}
