package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// ShardStatus is a shard in the status of a cluster.
type ShardStatus struct {
	Shard int
	// Nodes are those that have the shard; "" where all have it.
	Nodes string
	// Tables, Queues and Blobs are the homes of the logs, as the node that answers sees them; "" if it does not know.
	Tables, Queues, Blobs string
	// Data is the size of the largest copy of the shard, in bytes.
	Data int64
	// Behind says which nodes lack entries of the logs, and Missing which lack content; "" if none does.
	Behind, Missing string
	// Silent are the nodes of the shard that do not answer: whether they lack something is not known.
	Silent string
}

// ShardStatuses returns the shards of a cluster that has several, nil of others.
func ShardStatuses(status *cluster.Status) (list []ShardStatus) {
	shards := peering.Shards(status.Cluster)
	if shards == 1 {
		return nil
	}
	ends := LogEnds(status)
	for n := range shards {
		of := datadir.ShardOf("", n)
		s := ShardStatus{Shard: n, Nodes: strings.Join(nodesOf(status.Hosts, n), ", "),
			Tables: homeOf(status, of.Log("tables")), Queues: homeOf(status, of.Log("queues")),
			Blobs: homeOf(status, of.Log("blobs"))}
		var behind, missing, silent []string
		for _, node := range status.Nodes {
			switch {
			case !has(status, node.Name, n):
				continue
			case node.Report == nil:
				silent = append(silent, node.Name)
				continue
			}
			var lag uint64
			var data int64
			for _, kind := range logKinds {
				name := of.Log(kind)
				log, _ := LogOf(node.Report, name) // without it, the node lacks all
				lag += max(log.Lag, ends[name]-log.Applied)
				data += log.Data
				if log.Missing != nil && *log.Missing > 0 {
					missing = append(missing, node.Name+" "+ContentSize(*log.Missing))
				}
			}
			s.Data = max(s.Data, data)
			if lag > 0 {
				behind = append(behind, fmt.Sprintf("%s %d", node.Name, lag))
			}
		}
		s.Behind, s.Missing, s.Silent = strings.Join(behind, ", "), strings.Join(missing, ", "), strings.Join(silent, ", ")
		list = append(list, s)
	}
	return list
}

// ShardSizes returns the bytes of the shards, as far as their nodes have said them.
func ShardSizes(status *cluster.Status) (sizes shardmap.Sizes) {
	for _, s := range ShardStatuses(status) {
		sizes = append(sizes, s.Data)
	}
	return sizes
}

// Imbalance says by how much the nodes differ in what they have, and what would change that; "" where nothing does, and
// while shards move anyway.
func Imbalance(status *cluster.Status) string {
	if status.Hosts == nil || status.Move != nil || len(status.Lost) > 0 {
		return ""
	}
	sizes := ShardSizes(status)
	moves := len(status.Hosts.Balance(sizes))
	if moves == 0 {
		return ""
	}
	var shards []int
	var bytes []int64
	for _, node := range status.Hosts.Names() {
		shards = append(shards, len(status.Hosts.Of(node)))
		bytes = append(bytes, status.Hosts.Bytes(node, sizes))
	}
	return fmt.Sprintf("the nodes have %d to %d shards with %s to %s: \"lazuli cluster balance\" would make that more "+
		"equal with %d moves", slices.Min(shards), slices.Max(shards), ContentSize(slices.Min(bytes)),
		ContentSize(slices.Max(bytes)), moves)
}

// homeOf returns the home of a log, as the node that answers sees it; if that does not have the log, as another one
// does.
func homeOf(status *cluster.Status, name string) (home string) {
	for _, n := range status.Nodes {
		if n.Report == nil {
			continue
		}
		log, ok := LogOf(n.Report, name)
		switch {
		case ok && n.Name == status.Node:
			return log.Home
		case status.Hosts != nil:
			home = cmp.Or(home, log.Home)
		}
	}
	return home
}

// nodeLogs returns what is shown of the logs of a node: the last entry of the tables that it has applied and that of
// the newest snapshot, added up over the shards; the most entries that it lacks of a log of tables; the content that it
// lacks, nil if that is not known; its data; and what there is to say of its tier. ok is false for a node that does
// not say.
func nodeLogs(status *cluster.Status, r *cluster.NodeReport) (l LogReport, ok bool) {
	ends := LogEnds(status)
	var missing int64
	known := true
	for n := range peering.Shards(status.Cluster) {
		if !has(status, r.Node, n) {
			continue
		}
		of := datadir.ShardOf("", n)
		tables, said := LogOf(r, of.Log("tables"))
		ok = ok || said
		l.Applied, l.Snapshot = l.Applied+tables.Applied, l.Snapshot+tables.Snapshot
		l.Lag = max(l.Lag, tables.Lag, ends[of.Log("tables")]-tables.Applied)
		queues, _ := LogOf(r, of.Log("queues"))
		blobs, _ := LogOf(r, of.Log("blobs"))
		l.Data += tables.Data + queues.Data + blobs.Data
		known = known && blobs.Missing != nil
		missing += *cmp.Or(blobs.Missing, new(int64))
		l.Remote, l.TierProblem = l.Remote+blobs.Remote, cmp.Or(l.TierProblem, blobs.TierProblem)
	}
	if known {
		l.Missing = &missing
	}
	return l, ok
}

// nodesOf returns the names of the nodes that have a shard, nil where all have it.
func nodesOf(hosts *shardmap.Hosts, shard int) []string {
	if hosts == nil {
		return nil
	}
	return hosts.Shards[shard]
}
