package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/server/admin"
)

// newClusterExtract makes `lazuli cluster extract`.
func newClusterExtract(ask adminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "extract NAME",
		Short: "Make a data folder for a server alone from everything in the cluster", Args: cobra.ExactArgs(1),
		Long: `Make a data folder for a server alone from everything in the cluster: all accounts, with ETags, times, leases, snapshots, versions,
soft-deleted data, uncommitted blocks, the change feed, event subscriptions, and messages with their identifiers, dequeue counts and pop
receipts. The asked node writes it to the folder extracted/NAME inside its data folder, and checks it; the command prints the path. The cluster
goes on, and its node needs a majority and room for another copy of the data.

Clients should not write meanwhile. The folder has what was acknowledged before the command; what is written to tables and blobs later may be
missing, and the command fails if queues change. To go on with a server alone, stop all nodes afterwards, move the folder to its
place, and start "lazuli serve --location FOLDER" without the options --cluster-*.`,
		Example: `  lazuli cluster extract monday
  lazuli cluster extract alone && mv ./data/extracted/alone /var/lib/lazuli`}
	output := lineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), extractTimeout)
		defer cancel()
		cmd.SetContext(ctx)
		end := newMeter(cmd, "the node writes and checks the folder", nil).wait()
		body, err := ask(cmd, http.MethodPost, "/extract/"+url.PathEscape(args[0]), nil)
		end()
		if err != nil {
			return err
		}
		var made admin.Extracted
		if err := json.Unmarshal(body, &made); err != nil {
			return fmt.Errorf("the response names no folder: %w", err)
		}
		return output(made, "%s", made.Folder)
	}
	return cmd
}
