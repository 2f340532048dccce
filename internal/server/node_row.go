package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
)

// NodeRow is a node in the status of a cluster, as the command and the dashboard show it. What is not known is "-".
type NodeRow struct {
	Name, Address string
	// Zone is "" where nodes have no zones.
	Zone string
	// State is ready, not ready or unreachable, and Remark is why.
	State, Remark string
	// Sync is always or relaxed, and Clock how far the node's clock is ahead of that of the node that answers.
	Sync, Clock string
	// Applied, Lag and Snapshot are positions in the logs of tables, see [LogReport]; Lag is the longest of them.
	Applied, Lag, Snapshot string
	// Missing is the content that the node lacks, Data the size of what it has.
	Missing, Data string
	// Shards is the number of shards that the node has, Homes that of the logs whose changes go through it.
	Shards, Homes int
}

// NodeRows returns the nodes of a cluster.
func NodeRows(status *cluster.Status) (rows []NodeRow) {
	answered := 0
	for _, n := range status.Nodes {
		if n.Report != nil {
			answered++
		}
	}
	homes := map[string]int{}
	for _, log := range LogsOf(status) {
		homes[homeOf(status, log)]++
	}
	for _, n := range status.Nodes {
		row := NodeRow{Name: n.Name, Address: n.Address, Zone: zoneOf(status, n.Name), Homes: homes[n.Name],
			State: "unreachable", Remark: n.Problem, Sync: "-", Clock: "-", Applied: "-", Lag: "-", Snapshot: "-",
			Missing: "-", Data: "-"}
		for shard := range peering.Shards(status.Cluster) {
			if has(status, n.Name, shard) {
				row.Shards++
			}
		}
		if n.Report != nil {
			row.addReport(status, &n, answered)
		}
		row.Remark = strings.ReplaceAll(row.Remark, "\n", " ")
		rows = append(rows, row)
	}
	return rows
}

// addReport adds what the node says. answered is the number of nodes that said something.
func (row *NodeRow) addReport(status *cluster.Status, n *cluster.NodeStatus, answered int) {
	r := n.Report
	row.State, row.Remark = "ready", r.NotReady
	if r.NotReady != "" {
		row.State = "not ready"
	}
	row.Sync = "relaxed"
	if r.SyncAlways {
		row.Sync = "always"
	}
	row.Clock = time.Duration(n.Clock * float64(time.Second)).Round(time.Millisecond).String()
	log, ok := nodeLogs(status, r)
	if ok {
		row.Applied, row.Snapshot, row.Data = fmt.Sprint(log.Applied), fmt.Sprint(log.Snapshot), ContentSize(log.Data)
		// Alone, a node that is not ready knows of no entries that it lacks.
		if row.Lag = fmt.Sprint(log.Lag); r.NotReady != "" && answered < 2 {
			row.Lag = "?"
		}
	}
	if log.Missing != nil {
		row.Missing = ContentSize(*log.Missing)
	}
	if log.TierProblem != "" {
		row.Remark = strings.TrimPrefix(row.Remark+"; content-tier: "+log.TierProblem, "; ")
	}
}

// zoneOf returns the zone of a node, "" where nodes have none.
func zoneOf(status *cluster.Status, node string) string {
	if status.Hosts != nil {
		for _, p := range status.Hosts.Nodes {
			if p.Node == node {
				return p.Zone
			}
		}
	}
	return ""
}
