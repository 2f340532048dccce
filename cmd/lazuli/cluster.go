package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// newClusterCommand makes `lazuli cluster`.
func newClusterCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the state of a cluster of Lazuli nodes, and remove nodes",
		Long: `Show the state of a cluster of Lazuli nodes, and remove nodes. docs/cluster.md describes clusters.
--admin-host and --admin-port say where the admin listener of one running node is.`,
		Args: cobra.NoArgs,
	}
	ask := newAdminCaller(m, cmd, "/admin/cluster")
	cmd.AddCommand(newClusterStatus(ask), newClusterLeave(ask))
	return cmd
}

func newClusterStatus(ask adminCaller) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "status", Short: "Show all nodes, as the asked node sees them", Args: cobra.NoArgs,
		Long: `Show all nodes of the cluster, as the asked node sees them: the leader, which nodes have caught up, whether they sync each
write, how far their clocks differ, and why a node cannot be reached or is refused. Of the log of the tables: the
sequence that each node has applied, how many messages it lags, and the sequence of the newest snapshot.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAdmin(cmd, ask, asJSON, "the state of a cluster", writeClusterStatus)
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state as JSON")
	return cmd
}

func writeClusterStatus(w io.Writer, status natsserver.ClusterStatus) error {
	leader := status.Leader
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(w, "cluster %s, leader %s, as node %s sees it\n\n", status.Cluster, leader, status.Node)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tADDRESS\tSTATE\tSYNC\tCLOCK\tAPPLIED\tLAG\tSNAPSHOT\tREMARK")
	for _, n := range status.Nodes {
		state, sync, clock, remark := "unreachable", "-", "-", n.Problem
		applied, lag, snapshot := "-", "-", "-"
		if r := n.Report; r != nil {
			state, sync, remark = "ready", "relaxed", r.NotReady
			if r.NotReady != "" {
				state = "not ready"
			}
			if r.SyncAlways {
				sync = "always"
			}
			clock = (time.Duration(n.Clock * float64(time.Second))).Round(time.Millisecond).String()
			if log, ok := tablesLog(r); ok {
				applied, lag, snapshot = fmt.Sprint(log.Applied), fmt.Sprint(log.Lag), fmt.Sprint(log.Snapshot)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.Address, state, sync, clock, applied, lag, snapshot, strings.ReplaceAll(remark, "\n", " "))
	}
	return t.Flush()
}

// tablesLog returns what a node says about the log of the tables.
func tablesLog(r *natsserver.NodeReport) (log server.LogReport, ok bool) {
	detail, ok := r.Details["tables"]
	if !ok {
		return log, false
	}
	text, err := json.Marshal(detail)
	return log, err == nil && json.Unmarshal(text, &log) == nil
}

func newClusterLeave(ask adminCaller) *cobra.Command {
	return &cobra.Command{Use: "leave NODE", Short: "Remove a stopped node from the cluster", Args: cobra.ExactArgs(1),
		Long: `Remove a stopped node from the cluster: its copies are made again on the other nodes. Use it when the data folder of a node
is lost or damaged: afterwards a node of that name can join with an empty folder. Do not start the old folder again.
The asked node must be another one, with a majority.`,
		Example: "  lazuli cluster leave n3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := ask(cmd, http.MethodDelete, "/nodes/"+url.PathEscape(args[0]), nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; it can join again with an empty data folder\n", args[0])
			return nil
		}}
}
