package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/convert"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// newClusterConvert makes `lazuli cluster convert`.
func newClusterConvert() *cobra.Command {
	var o convert.Options
	var undo bool
	cmd := &cobra.Command{Use: "convert FOLDER",
		Short: "Make the data folder of a server alone that of the first node of a new cluster", Args: cobra.ExactArgs(1),
		Long: `Make the data folder of a stopped server alone that of the first node of a new cluster. Everything in the folder becomes
the beginning of the cluster: all accounts, with ETags, times, leases, snapshots, versions, soft-deleted data, uncommitted blocks,
the change feed, event subscriptions, and messages with their identifiers, dequeue counts and pop receipts.

The command checks the whole folder, as "lazuli fsck" does, and changes nothing if it finds an error. Then start the node with
"lazuli serve --location FOLDER --cluster-node NODE ...", and all other nodes with empty folders. When all of them are connected, the
node puts the data into the cluster, and all become ready. Until then the folder keeps the data unchanged, and --undo makes it that of
a server alone again as long as the cluster has not formed.

The disk needs room for the tables, the metadata of blobs and the queues three times. Content of blobs stays where it is; the other nodes copy
it in the background. The folder's own snapshots (--admin-state) stay in FOLDER/snapshots, and a cluster does not use them.`,
		Example: `  lazuli cluster convert ./data --cluster-node n1
  lazuli cluster convert ./data --undo`}
	f := cmd.Flags()
	f.StringVar(&o.Node, "cluster-node", "", "name of the node: the one that \"lazuli serve --cluster-node\" gets")
	f.BoolVar(&undo, "undo", false, "make the folder that of a server alone again, before the cluster has formed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		if undo == (o.Node != "") {
			return console.Usagef("give either --cluster-node or --undo")
		}
		if undo {
			if err := convert.Undo(folder); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is the folder of a server alone again\n", folder)
			return nil
		}
		progress := console.NewMeter(cmd, "checked", console.BytesUnit)
		o.Progress = progress.At
		id, err := convert.ToNode(cmd.Context(), folder, o)
		progress.End()
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s is the folder of node %s of the new cluster %s.\n", folder, id.Node, id.Cluster)
		fmt.Fprintf(out, "Start it with --location %s --cluster-node %s, and all other nodes of the cluster with empty "+
			"folders.\n", folder, id.Node)
		if list, _ := os.ReadDir(filepath.Join(folder, datadir.SnapshotsFolder)); len(list) > 0 {
			fmt.Fprintf(out, "The folder's snapshots in %s are kept, and cannot be restored in a cluster.\n",
				filepath.Join(folder, datadir.SnapshotsFolder))
		}
		return nil
	}
	return cmd
}
