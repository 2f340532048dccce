package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/clusterfiles"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/convert"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// newClusterCommand makes `lazuli cluster`.
func newClusterCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster",
		Short: "Show a cluster, make snapshots, remove nodes, move shards, finish upgrades, and convert the data of a " +
			"single server",
		Long: `Show the state of a cluster of Lazuli nodes, make snapshots of its logs, remove nodes, move
shards, convert the data folder of a single server for a new cluster, and copy accounts between such a folder
and a cluster. docs/cluster.md describes clusters. --admin-host and --admin-port say where the admin listener of
one running node is; a node accepts snapshot, leave, move and upgrade --finish only from its own machine.
convert works on a folder that no process uses; import and export are clients of an account. No command joins a
cluster: "lazuli serve" with the options --cluster-* does. To go back to a single server, use lazuli backup and
lazuli restore.`,
		Args: cobra.NoArgs,
	}
	ask := target.AdminFlags(m.Environ, cmd, "/admin/cluster")
	cmd.AddCommand(newClusterInit(), newClusterStatus(ask), newClusterSnapshot(ask), newClusterLeave(ask),
		newClusterMove(ask), newClusterDrain(ask), newClusterBalance(ask), newClusterUpgrade(ask), newClusterConvert(),
		newClusterImport(), newClusterExport())
	return cmd
}

func newClusterStatus(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show all nodes, as the asked node sees them", Args: cobra.NoArgs,
		Long: `Show all nodes of the cluster, as the asked node sees them: the leader, which nodes have caught up, whether they sync each
write, how far their clocks differ, and why a node cannot be reached or is refused. Of the log of the tables: the
sequence that each node has applied, how many messages it lags, and the sequence of the newest snapshot. Of the blobs: how much
content of the other nodes each node has not copied yet, "-" while it does not know; it serves that content all the same. A last
line says how many streams have fewer current copies than they should, if there are any.

With --wait, or --wait=5m, the command asks until every node is ready, every stream has all of its copies, and every node has all entries and
content, and exits with 0 then; with 1 after that time (10 minutes), and a line that says what is missing. Between the restarts of two nodes it says
that the next one may be stopped.`}
	var wait time.Duration
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		began := time.Now()
		for {
			status, err := target.AskAdmin[cluster.Status](cmd, ask, "", "the state of a cluster")
			lacks := ""
			if err == nil {
				lacks = server.Incomplete(&status)
			}
			// An error counts only when the time is over: a node that restarts refuses connections for a while.
			if wait == 0 || err == nil && lacks == "" || time.Since(began) >= wait {
				if err != nil {
					return err
				}
				if err := output(status, func(w io.Writer) error { return writeClusterStatus(w, status) }); err != nil {
					return err
				}
				if wait > 0 && lacks != "" {
					return fmt.Errorf("a copy is not complete: %s", lacks)
				}
				return nil
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(waitPoll):
			}
		}
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait until every node has a complete copy of everything, at most this long, and "+
		"fail if one has not")
	// So that --wait alone is enough; a time needs the equals sign.
	cmd.Flags().Lookup("wait").NoOptDefVal = "10m"
	return cmd
}

// waitPoll is the interval at which `cluster status --wait` asks.
const waitPoll = 500 * time.Millisecond

func writeClusterStatus(w io.Writer, status cluster.Status) error {
	leader := status.Leader
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(w, "cluster %s, leader %s, as node %s sees it\n%s\n", status.Cluster, leader, status.Node,
		server.Homes(&status))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shards := "" // two columns where a node has a part of the shards
	if status.Hosts != nil {
		shards = "SHARDS\tHOMES\t"
	}
	fmt.Fprintln(t, "NODE\tADDRESS\tSTATE\tSYNC\tCLOCK\t"+shards+"APPLIED\tLAG\tSNAPSHOT\tDATA\tMISSING\tREMARK")
	for _, n := range server.NodeRows(&status) {
		if shards != "" {
			shards = fmt.Sprintf("%d\t%d\t", n.Shards, n.Homes)
		}
		fmt.Fprintln(t, strings.Join([]string{n.Name, n.Address, n.State, n.Sync, n.Clock, shards + n.Applied, n.Lag,
			n.Snapshot, n.Data, n.Missing, n.Remark}, "\t"))
	}
	if err := errors.Join(t.Flush(), writeShards(w, status)); err != nil {
		return err
	}
	for _, f := range status.Fronts {
		text := printable.Line(f.Problem)
		switch {
		case f.Report == nil:
		case f.Report.NotReady != "":
			text = "not ready: " + printable.Line(f.Report.NotReady)
		default:
			text = "ready, passes requests to " + strings.Join(f.Report.Serving, ", ")
		}
		fmt.Fprintf(w, "front-end %s at %s: %s\n", f.Name, f.Address, text)
	}
	if status.Copies.Short == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%d streams have fewer current copies than they should, such as %s. Do not stop or "+
		"remove another node now.\n",
		status.Copies.Short, strings.Join(status.Copies.Examples, ", "))
	return err
}

// writeShards writes the shards of a cluster that has several: the homes of their logs, and which node lacks what.
func writeShards(w io.Writer, status cluster.Status) error {
	list := server.ShardStatuses(&status)
	if list == nil {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	nodes := "" // a column where a node has a part of the shards
	if status.Hosts != nil {
		nodes = "NODES\t"
	}
	fmt.Fprintln(t, "SHARD\t"+nodes+"TABLES AT\tQUEUES AT\tBLOBS AT\tDATA\tLAG\tMISSING\tNO ANSWER")
	for _, s := range list {
		if nodes != "" {
			nodes = s.Nodes + "\t"
		}
		fmt.Fprintf(t, "%d\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Shard, nodes, cmp.Or(s.Tables, "-"),
			cmp.Or(s.Queues, "-"), cmp.Or(s.Blobs, "-"), server.ContentSize(s.Data), cmp.Or(s.Behind, "0"),
			cmp.Or(s.Missing, "-"), cmp.Or(s.Silent, "-"))
	}
	err := t.Flush()
	for _, name := range status.Lost {
		_, failed := fmt.Fprintf(w, "\nnode %s is lost: %d of its shards are to move to other nodes, and then it leaves\n",
			name, len(status.Hosts.Of(name)))
		err = cmp.Or(err, failed)
	}
	if text := server.Imbalance(&status); text != "" && err == nil {
		_, err = fmt.Fprintf(w, "\n%s\n", text)
	}
	if err != nil || status.Move == nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nmoving %s: %s\n", status.Move, steps[status.Move.Step])
	return err
}

// snapshotTimeout bounds the wait for a snapshot.
const snapshotTimeout = 15 * time.Minute

func newClusterSnapshot(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: "Put a snapshot into the logs of the cluster, for nodes that join",
		Args: cobra.NoArgs,
		Long: `Put a snapshot of the tables into the cluster's log, while clients read and write. Nodes make snapshots themselves when a log
has become long; one made by hand lets a node that is about to join with an empty folder start from it. A snapshot is no
backup: it is part of the cluster.`}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// The nodes write the snapshot before they answer, which takes minutes for large tables. Without a bound a node
		// that hangs would hold the command.
		ctx, cancel := context.WithTimeout(cmd.Context(), snapshotTimeout)
		defer cancel()
		cmd.SetContext(ctx)
		end := console.NewMeter(cmd, "the nodes write a snapshot", nil).Wait()
		body, err := ask(cmd, http.MethodPost, "/snapshot", nil)
		end()
		if err != nil {
			return err
		}
		var logs map[string]server.LogReport
		if err := json.Unmarshal(body, &logs); err != nil {
			return fmt.Errorf("the response is not a list of logs: %w", err)
		}
		// Each service has its own log, and their snapshots are at different records.
		out := begin()
		for _, name := range slices.Sorted(maps.Keys(logs)) {
			err = errors.Join(err, out.Add(struct {
				Log      string `json:"log"`
				Snapshot uint64 `json:"snapshot"`
			}{name, logs[name].Snapshot}, fmt.Sprintf("log of %s: snapshot up to record %d", name, logs[name].Snapshot)))
		}
		return out.End(err)
	}
	return cmd
}

// newClusterUpgrade makes `lazuli cluster upgrade`.
func newClusterUpgrade(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade",
		Short: "Show whether an upgrade of the cluster is finished, and finish it", Args: cobra.NoArgs,
		Long: `Show the format of the cluster's data, and the newest one that each node understands.
While nodes are upgraded one after the other, all of them write the format that the cluster has had, and each of them
can go back to the release before.

With --finish, and when every node runs the newer release, its format becomes that of the cluster. From then on the
release before is refused, and no node can go back; a backup can. The command is refused while a node does not answer.`,
		Example: `  lazuli cluster upgrade
  lazuli cluster upgrade --finish`}
	var finish bool
	cmd.Flags().BoolVar(&finish, "finish", false, "switch the cluster to the newest format that all nodes understand")
	confirm := console.Confirmation(cmd)
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		method, path := http.MethodGet, "/upgrade"
		if finish {
			if err := confirm("Finish the upgrade, after which no node can go back to the release before?"); err != nil {
				return err
			}
			method, path = http.MethodPost, "/upgrade/finish"
		}
		body, err := ask(cmd, method, path, nil)
		if err != nil {
			return err
		}
		var upgrade cluster.Upgrade
		if err := json.Unmarshal(body, &upgrade); err != nil {
			return fmt.Errorf("the response does not describe an upgrade: %w", err)
		}
		return output(upgrade, func(w io.Writer) error { return writeClusterUpgrade(w, &upgrade) })
	}
	return cmd
}

func writeClusterUpgrade(w io.Writer, u *cluster.Upgrade) error {
	for _, name := range slices.Sorted(maps.Keys(u.Nodes)) {
		if problem := u.Problems[name]; problem != "" {
			fmt.Fprintf(w, "%s: does not answer: %s\n", name, printable.Line(problem))
			continue
		}
		fmt.Fprintf(w, "%s: understands formats up to %d\n", name, u.Nodes[name])
	}
	text := fmt.Sprintf("the cluster's data has format %d, and no upgrade is to be finished", u.Format)
	switch {
	case u.Newest > u.Format && len(u.Problems) == 0:
		text = fmt.Sprintf("the cluster's data has format %d; with --finish it gets format %d, and no node can go back",
			u.Format, u.Newest)
	case len(u.Problems) > 0:
		text = fmt.Sprintf("the cluster's data has format %d; an upgrade can be finished when all nodes answer", u.Format)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// newClusterConvert makes `lazuli cluster convert`.
func newClusterConvert() *cobra.Command {
	var o convert.Options
	var undo bool
	cmd := &cobra.Command{Use: "convert FOLDER",
		Short: "Convert the data folder of a single server for the first node of a new cluster",
		Args:  cobra.ExactArgs(1),
		Long: `Make the data folder of a stopped single server that of the first node of a new cluster. Everything in the folder becomes
the beginning of the cluster: all accounts, with ETags, times, leases, snapshots, versions, soft-deleted data, uncommitted blocks,
the change feed, event subscriptions, and messages with their identifiers, dequeue counts and pop receipts.

The command checks the whole folder, as "lazuli fsck" does, and changes nothing if it finds an error. Then start the node with
"lazuli serve --location FOLDER --cluster-node NODE ...", and all other nodes with empty folders. When all of them are connected, the
node puts the data into the cluster, and all become ready. Until then the folder keeps the data unchanged, and --undo makes it that of
a single server again as long as the cluster has not formed.

The disk needs room for the tables, the metadata of blobs and the queues three times. Content of blobs stays where it is; the other nodes copy
it in the background. The folder's own snapshots (--admin-state) stay in FOLDER/snapshots, and a cluster does not use them.`,
		Example: `  lazuli cluster convert ./data --cluster-node n1
  lazuli cluster convert ./data --undo`}
	f := cmd.Flags()
	f.StringVar(&o.Node, "cluster-node", "", "name of the node, as in \"lazuli serve --cluster-node\"")
	f.BoolVar(&undo, "undo", false, "convert the folder back for a single server, before the cluster has formed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		// Both or neither: one says what the folder becomes, the other that it becomes what it was.
		if undo == (o.Node != "") {
			return console.Usagef("give either --cluster-node or --undo")
		}
		if undo {
			if err := convert.Undo(folder); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is the folder of a single server again\n", folder)
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
		// Said now, when the folder can still be made that of a single server again.
		if list, _ := os.ReadDir(filepath.Join(folder, datadir.SnapshotsFolder)); len(list) > 0 {
			fmt.Fprintf(out, "The folder's snapshots in %s are kept, and cannot be restored in a cluster.\n",
				filepath.Join(folder, datadir.SnapshotsFolder))
		}
		return nil
	}
	return cmd
}

// newClusterInit makes `lazuli cluster init`, which writes the configurations of the nodes of a new cluster and their
// secret.
func newClusterInit() *cobra.Command {
	var nodes []string
	var first int
	cmd := &cobra.Command{
		Use:   "init FOLDER",
		Short: "Write the configurations and the secret of a new cluster",
		Long: `Write a configuration for each node of a new cluster, and the secret by which they trust each other, to a folder: n1.yaml, n2.yaml, n3.yaml and
cluster-secret. --nodes names the machines; without it, the nodes run on this machine, with data below the folder. Nothing is
started, and no file is overwritten.`,
		Example: `  lazuli cluster init cluster --nodes 10.0.0.1,10.0.0.2,10.0.0.3
  lazuli cluster init try`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(nodes) > 0 && cmd.Flags().Changed("first-port") {
				return console.Usagef("--first-port is for nodes on this machine; --nodes may name ports")
			}
			// All files are made before the first is written, so that a mistake leaves no half of a cluster.
			files, err := clusterfiles.Make(args[0], nodes, first)
			if err != nil {
				return console.Usage(err)
			}
			if err := clusterfiles.Write(args[0], files); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, f := range files {
				fmt.Fprintln(out, "wrote", filepath.Join(args[0], f.Name))
			}
			if len(nodes) == 0 {
				fmt.Fprintln(out, "\nStart each node in a terminal of its own; they serve when all run:")
				// The first file is the secret.
				for _, f := range files[1:] {
					fmt.Fprintln(out, "  lazuli --config", filepath.Join(args[0], f.Name))
				}
				fmt.Fprintln(out, "  lazuli cluster status --admin-port", first+3)
				return nil
			}
			fmt.Fprintln(out, "\nCopy cluster-secret and its own .yaml to each machine, into one folder, and start there, "+
				"with n1.yaml on the first machine:")
			fmt.Fprintln(out, "  lazuli --config n1.yaml")
			fmt.Fprintln(out, "The services listen on all addresses, with the development account, whose key is public: name "+
				"an accounts-file in each .yaml first.")
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil,
		"`addresses` of the machines, host or host:port; the port is for the nodes (default: three nodes on this machine)")
	cmd.Flags().IntVar(&first, "first-port", clusterfiles.FirstPort,
		"first `port` of nodes on this machine: five ports of each node, 1000 apart")
	return cmd
}
