package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// JetStream elects the server that asks first, so nodes lead different numbers of logs, and one that was restarted
// leads none. As the changes of a log go through the node beside its leader, these nodes do different amounts of work.
// So one node, that beside the leader of JetStream's metadata, now and then lets one log have another leader
// ([Node.BalanceLeaders]).

// led is a log with the nodes that have a copy of it.
type led struct {
	stream, leader string
	others         []string // the nodes that may lead it instead
}

// BalanceLeaders lets the leader of one of the streams give its place to another node, if that leads at least two fewer
// of them. It returns whether it did. It does nothing while anything moves or is about to, while a node is away, and
// while a copy of one of the streams is not current, and where nodes that join get nothing by themselves.
func (n *Node) BalanceLeaders(ctx context.Context, streams []string) (moved bool, err error) {
	l := n.site.Layout()
	if l.Hosts == nil || l.Moving() != nil || len(l.Filling) > 0 || len(l.Lost) > 0 || l.Manual {
		return false, nil
	}
	// While a node is away the others lead its logs. They would be given back one by one when it returns, so the numbers
	// of now say nothing.
	if runs := n.running(&l); slices.ContainsFunc(l.Hosts.Names(), func(name string) bool { return !runs(name) }) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	var list []led
	for _, stream := range streams {
		info, replicas, err := n.copiesOf(ctx, stream)
		if err != nil {
			return false, fmt.Errorf("stream %s: %w", stream, err)
		}
		if replicas == 0 {
			continue
		}
		// An election, or a move of the stream, is under way.
		if info == nil || info.Leader == "" || len(info.Replicas) != replicas-1 {
			return false, nil
		}
		at := led{stream: stream, leader: nodeOf(info.Leader)}
		for _, r := range info.Replicas {
			// A copy that is behind cannot lead at once, and the log would answer nothing until it can.
			if !r.Current || r.Offline {
				return false, nil
			}
			at.others = append(at.others, nodeOf(r.Name))
		}
		list = append(list, at)
	}
	stream, to := nextLeader(list)
	if stream == "" {
		return false, nil
	}
	n.config.Log.Info("a log gets another leader, so that all nodes lead as many", "stream", stream, "node", to)
	return true, n.stepDown(ctx, stream, n.site.ServerNameOf(to))
}

// nextLeader returns a stream whose leader has too many, and the node that is to lead it; "" if no other leader of one
// stream would make the numbers more equal.
func nextLeader(list []led) (stream, to string) {
	leads := map[string]int{}
	for _, at := range list {
		leads[at.leader]++
	}
	// From the node with the most to the one with the fewest: each step makes the numbers more equal, so they end.
	most := slices.SortedFunc(maps.Keys(leads), func(a, b string) int {
		return cmp.Or(cmp.Compare(leads[b], leads[a]), cmp.Compare(a, b))
	})
	for _, from := range most {
		for _, at := range list {
			if at.leader != from {
				continue
			}
			for _, node := range at.others {
				if leads[node] <= leads[from]-2 && (to == "" || leads[node] < leads[to]) {
					stream, to = at.stream, node
				}
			}
		}
		if to != "" {
			return stream, to
		}
	}
	return "", ""
}

// stepDown asks the leader of a stream to give its place to another server.
func (n *Node) stepDown(ctx context.Context, stream, to string) error {
	answer, err := natsserver.AskJSON[server.JSApiStreamLeaderStepDownResponse](ctx, n.server.Conn(),
		fmt.Sprintf(server.JSApiStreamLeaderStepDownT, stream),
		server.JSApiLeaderStepdownRequest{Placement: &server.Placement{Preferred: to}})
	if err == nil && answer.Error != nil {
		err = errors.New(answer.Error.Description)
	}
	if err != nil {
		return fmt.Errorf("another leader of stream %s: %w", stream, err)
	}
	return nil
}
