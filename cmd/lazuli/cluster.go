package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/server"
)

// newClusterCommand makes `lazuli cluster`.
func newClusterCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster",
		Short: "Show the state of a cluster of Lazuli nodes, make snapshots, remove nodes, and begin a cluster with the " +
			"data of a server alone",
		Long: `Show the state of a cluster of Lazuli nodes, make snapshots of its logs, remove nodes, make the data folder of a server alone the
beginning of a cluster, and copy accounts between such a folder and a cluster. docs/cluster.md describes clusters. --admin-host and --admin-port
say where the admin listener of one running node is; a node accepts snapshot and leave only from its own machine. convert works on a folder that
no process uses; import and export are clients of an account.
No command joins a cluster: "lazuli serve" with the options --cluster-* does. To go back to a server alone: lazuli backup, and lazuli restore.`,
		Args: cobra.NoArgs,
	}
	ask := newAdminCaller(m, cmd, "/admin/cluster")
	cmd.AddCommand(newClusterInit(), newClusterStatus(ask), newClusterSnapshot(ask), newClusterLeave(ask),
		newClusterConvert(), newClusterImport(), newClusterExport())
	return cmd
}

func newClusterStatus(ask adminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show all nodes, as the asked node sees them", Args: cobra.NoArgs,
		Long: `Show all nodes of the cluster, as the asked node sees them: the leader, which nodes have caught up, whether they sync each
write, how far their clocks differ, and why a node cannot be reached or is refused. Of the log of the tables: the
sequence that each node has applied, how many messages it lags, and the sequence of the newest snapshot. Of the blobs: how much
content of the other nodes each node has not copied yet, "-" while it does not know; it serves that content all the same. A last
line says how many streams have fewer current copies than they should, if there are any.`}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		status, err := askAdmin[cluster.Status](cmd, ask, "", "the state of a cluster")
		if err != nil {
			return err
		}
		return output(status, func(w io.Writer) error { return writeClusterStatus(w, status) })
	}
	return cmd
}

func writeClusterStatus(w io.Writer, status cluster.Status) error {
	leader := status.Leader
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(w, "cluster %s, leader %s, as node %s sees it\n\n", status.Cluster, leader, status.Node)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tADDRESS\tSTATE\tSYNC\tCLOCK\tAPPLIED\tLAG\tSNAPSHOT\tMISSING\tREMARK")
	for _, n := range status.Nodes {
		state, sync, clock, remark := "unreachable", "-", "-", n.Problem
		applied, lag, snapshot, missing := "-", "-", "-", "-"
		if r := n.Report; r != nil {
			state, sync, remark = "ready", "relaxed", r.NotReady
			if r.NotReady != "" {
				state = "not ready"
			}
			if r.SyncAlways {
				sync = "always"
			}
			clock = (time.Duration(n.Clock * float64(time.Second))).Round(time.Millisecond).String()
			if log, ok := logOf(r, "tables"); ok {
				applied, lag, snapshot = fmt.Sprint(log.Applied), fmt.Sprint(log.Lag), fmt.Sprint(log.Snapshot)
			}
			if log, ok := logOf(r, "blobs"); ok && log.Missing != nil {
				missing = contentSize(*log.Missing)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.Address, state, sync, clock, applied, lag,
			snapshot, missing, strings.ReplaceAll(remark, "\n", " "))
	}
	if err := t.Flush(); err != nil || status.Copies.Short == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d streams have fewer current copies than they should, such as %s. Do not stop or "+
		"remove another node now.\n",
		status.Copies.Short, strings.Join(status.Copies.Examples, ", "))
	return err
}

// contentSize writes a number of bytes for people.
func contentSize(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d B", n)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

// logOf returns what a node says about one of its logs.
func logOf(r *cluster.NodeReport, name string) (log server.LogReport, ok bool) {
	detail, ok := r.Details[name]
	if !ok {
		return log, false
	}
	text, err := json.Marshal(detail)
	return log, err == nil && json.Unmarshal(text, &log) == nil
}

// snapshotTimeout bounds the wait for a snapshot.
const snapshotTimeout = 15 * time.Minute

func newClusterSnapshot(ask adminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: "Put a snapshot into the logs of the cluster, for nodes that join",
		Args: cobra.NoArgs,
		Long: `Put a snapshot of the tables into the cluster's log, while clients read and write. Nodes make snapshots themselves when a log
has become long; one made by hand lets a node that is about to join with an empty folder start from it. A snapshot is no
backup: it is part of the cluster.`}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
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

func newClusterLeave(ask adminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "leave NODE", Short: "Remove a stopped node from the cluster", Args: cobra.ExactArgs(1),
		Long: `Remove a stopped node from the cluster: its copies are made again on the other nodes. Use it when the data folder of a node
is lost or damaged: afterwards a node of that name can join with an empty folder. Do not start the old folder again.
The asked node must be another one, with a majority. The command is refused while a stream has no majority of current copies,
and returns when no stream counts on the removed node.`,
		Example: "  lazuli cluster leave n3"}
	confirm := console.Confirmation(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := confirm(fmt.Sprintf("Remove the node %s and its data folder from the cluster?", args[0])); err != nil {
			return err
		}
		if _, err := ask(cmd, http.MethodDelete, "/nodes/"+url.PathEscape(args[0]), nil); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; it can join again with an empty data folder\n", args[0])
		return nil
	}
	return cmd
}
