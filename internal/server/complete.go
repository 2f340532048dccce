package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// logKinds are the logs of a shard.
var logKinds = []string{"tables", "blobs", "queues"}

// logNames returns the names of the logs of a number of shards.
func logNames(shards int) (names []string) {
	for n := range shards {
		for _, kind := range logKinds {
			names = append(names, datadir.ShardOf("", n).Log(kind))
		}
	}
	return names
}

// LogsOf returns the names of the logs of which the nodes of a cluster report.
func LogsOf(status *cluster.Status) []string { return logNames(peering.Shards(status.Cluster)) }

// has reports whether a node is to have a shard.
func has(status *cluster.Status, node string, shard int) bool {
	return status.Hosts == nil || status.Hosts.On(node, shard)
}

// content reports whether a log is that of blobs, with whose shard content goes.
func content(log string) bool { return strings.HasPrefix(log, "blobs") }

// underWay is the number of entries by which nodes that have all may differ while clients write: they answer one after
// the other.
const underWay = 1000

// Complete returns nil if this node has a complete copy of all that it is to have, and otherwise what it lacks: a
// rolling update waits for it before it stops the next node. It includes [Server.Ready]. That another node lacks
// something, or does not run, is no reason. A single server is complete when it is ready.
func (s *Server) Complete(ctx context.Context) error {
	if err := s.Ready(); err != nil || !s.Clustered() {
		return err
	}
	status, err := s.ClusterStatus(ctx)
	if err != nil {
		return err
	}
	if lacks := incompleteNode(status, status.Node); lacks != "" {
		return errors.New(lacks)
	}
	return nil
}

// Incomplete returns why the cluster could lose a copy that it needs if one more node stopped now; "" if every node is
// ready, every stream has all of its copies, and every node has applied the logs and has all content.
func Incomplete(status *cluster.Status) string {
	switch {
	case status.Unknown != "":
		return status.Unknown
	case status.Move != nil && !status.Move.Decided():
		return "the move of " + status.Move.String() + " is not done"
	case status.Copies.Short > 0:
		return fmt.Sprintf("%d streams have fewer current copies than they should, such as %s", status.Copies.Short,
			strings.Join(status.Copies.Examples, ", "))
	}
	for _, n := range status.Nodes {
		if lacks := incompleteNode(status, n.Name); lacks != "" {
			return lacks
		}
	}
	return ""
}

// incompleteNode returns what one node lacks, "" if it is nothing.
func incompleteNode(status *cluster.Status, name string) string {
	// Whether a node that does not answer leads a stream of which this one lacks entries is not known.
	if status.Unknown != "" {
		return status.Unknown
	}
	if slices.Contains(status.Copies.Behind, name) {
		return fmt.Sprintf("%s lacks entries of streams: %s", name, strings.Join(status.Copies.Examples, ", "))
	}
	at := slices.IndexFunc(status.Nodes, func(n cluster.NodeStatus) bool { return n.Name == name })
	if at < 0 {
		return name + " is not one of the nodes"
	}
	n := status.Nodes[at]
	if n.Report == nil {
		return fmt.Sprintf("%s: %s", name, n.Problem)
	}
	if n.Report.NotReady != "" {
		return fmt.Sprintf("%s: %s", name, n.Report.NotReady)
	}
	ends := LogEnds(status)
	for number := range peering.Shards(status.Cluster) {
		if !has(status, name, number) {
			continue
		}
		if lacks := incompleteShard(status, &n, number, ends); lacks != "" {
			return lacks
		}
	}
	return ""
}

// incompleteShard returns what a node that reports lacks of a shard that it is to have.
func incompleteShard(status *cluster.Status, n *cluster.NodeStatus, number int, ends map[string]uint64) string {
	name := n.Name
	for _, kind := range logKinds {
		of := datadir.ShardOf("", number).Log(kind)
		log, ok := LogOf(n.Report, of)
		switch {
		case !ok:
			return fmt.Sprintf("%s does not serve the %s yet", name, of)
		case log.CatchingUp, ends[of]-log.Applied > underWay:
			return fmt.Sprintf("%s lacks %d entries of the %s", name, max(log.Lag, ends[of]-log.Applied), of)
		case content(of) && log.Missing == nil && allReport(status, number):
			return name + " does not know what content it lacks"
		case content(of) && log.Missing != nil && *log.Missing > 0:
			return fmt.Sprintf("%s lacks %s of content", name, ContentSize(*log.Missing))
		}
	}
	return ""
}

// lackingWithout returns what the other nodes with the shards of a lost node lack, as far as nodes that answer have it;
// "" if it is nothing. What the lost one has written does not count: the others copy it from each other when they know
// that it is lost.
func lackingWithout(status *cluster.Status, lost string) string {
	ends := LogEnds(status)
	for shard, hosts := range status.Hosts.Shards {
		if !slices.Contains(hosts, lost) {
			continue
		}
		for _, n := range status.Nodes {
			if n.Name == lost || !slices.Contains(hosts, n.Name) {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(hosts), func(name string) bool { return name == n.Name || name == lost })
			if lacks := lackingOf(&n, shard, others, ends); lacks != "" {
				return lacks
			}
		}
	}
	return ""
}

// lackingOf returns what a node lacks of a shard, and of the content that others have; "" if it is nothing.
func lackingOf(n *cluster.NodeStatus, shard int, others []string, ends map[string]uint64) string {
	if n.Report == nil {
		return fmt.Sprintf("%s, which has shard %d, does not answer: %s", n.Name, shard, n.Problem)
	}
	for _, kind := range logKinds {
		of := datadir.ShardOf("", shard).Log(kind)
		log, ok := LogOf(n.Report, of)
		switch {
		case !ok:
			return fmt.Sprintf("%s does not serve the %s yet", n.Name, of)
		case log.CatchingUp, ends[of]-log.Applied > underWay:
			return fmt.Sprintf("%s lacks %d entries of the %s", n.Name, max(log.Lag, ends[of]-log.Applied), of)
		case !content(of):
			continue
		}
		for _, other := range others {
			switch lacks, known := log.Lacks[other]; {
			case !known:
				return fmt.Sprintf("%s does not know yet what content of %s it lacks", n.Name, other)
			case lacks > 0:
				return fmt.Sprintf("%s lacks %s of content that %s has", n.Name, ContentSize(lacks), other)
			}
		}
	}
	return ""
}

// allReport reports whether all nodes with a shard answered. While one does not run, no other one ever knows what that
// one has.
func allReport(status *cluster.Status, shard int) bool {
	return !slices.ContainsFunc(status.Nodes,
		func(n cluster.NodeStatus) bool { return n.Report == nil && has(status, n.Name, shard) })
}

// LogEnds returns the last entry of each log that any node has applied. A node that does not hear from the others does
// not know of what it lacks.
func LogEnds(status *cluster.Status) map[string]uint64 {
	ends := map[string]uint64{}
	for _, n := range status.Nodes {
		if n.Report == nil {
			continue
		}
		for _, name := range LogsOf(status) {
			if log, ok := LogOf(n.Report, name); ok {
				ends[name] = max(ends[name], log.Applied)
			}
		}
	}
	return ends
}

// LogOf returns what a node says about one of its logs.
func LogOf(r *cluster.NodeReport, name string) (log LogReport, ok bool) {
	detail, ok := r.Details[name]
	if !ok {
		return log, false
	}
	text, err := json.Marshal(detail)
	return log, err == nil && json.Unmarshal(text, &log) == nil
}

// Homes says through which nodes changes go, as the node that answers sees it; "" if it does not say.
//
// Those of several shards are in [ShardStatuses].
func Homes(status *cluster.Status) string {
	if peering.Shards(status.Cluster) > 1 {
		return ""
	}
	var texts []string
	for _, n := range status.Nodes {
		if n.Report == nil || n.Name != status.Node {
			continue
		}
		for _, name := range []string{"tables", "queues", "blobs"} {
			if log, ok := LogOf(n.Report, name); ok && log.Home != "" {
				texts = append(texts, fmt.Sprintf("%s at %s", name, log.Home))
			}
		}
	}
	if texts == nil {
		return ""
	}
	return "homes of the logs: " + strings.Join(texts, ", ") + "\n"
}

// ContentSize writes a number of bytes for people.
func ContentSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}
