package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A move needs a cluster whose nodes have a part of the shards, a format that all nodes understand, and a majority. It
// is not parallel, since it acts as another release.
func TestMovesThatAClusterRefuses(t *testing.T) {
	site := func(copies int) *peering.Site {
		c := peering.Config{Node: "n1", Listen: "127.0.0.1:6201", Shards: 4, Copies: copies, Dir: t.TempDir(),
			Log: slog.New(slog.DiscardHandler)}
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			c.Peers = append(c.Peers, peering.Peer{Name: name, Address: "127.0.0.1:620" + name[1:]})
		}
		s := check.Must(peering.Open(c))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		check.OK(t, s.Discover(ctx, func(string) {}))
		return s
	}
	newest := peering.Supported.Newest
	peering.Supported.Newest = peering.MoveFormat - 1
	old := site(3)
	peering.Supported.Newest = newest
	for name, try := range map[string]struct {
		node *Node
		want error
		text string
	}{
		"a single server":    {nil, ErrNotClustered, ""},
		"all shards on all":  {&Node{site: site(0)}, ErrNotSpread, ""},
		"an older format":    {&Node{site: old}, ErrMoveFormat, "it is 5, and a move needs 6: run `lazuli cluster upgrade"},
		"without a majority": {&Node{site: site(3)}, nil, "no majority"},
	} {
		_, err := try.node.Move(t.Context(), 1, "n1", "n2")
		if try.node == nil {
			_, err = try.node.CancelMove(t.Context())
		}
		if err == nil || try.want != nil && !errors.Is(err, try.want) || !strings.Contains(err.Error(), try.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of nodes that have joined, one that is away does not hold up the others.
func TestNextFill(t *testing.T) {
	t.Parallel()
	hosts := check.Must(shardmap.NewHosts([]shardmap.Place{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}, 4))(t)
	for _, name := range []string{"n4", "n5"} {
		hosts = check.Must(hosts.Added(shardmap.Place{Node: name}))(t)
	}
	for name, c := range map[string]struct {
		filling []string
		away    string
		to      string
		filled  string
	}{
		"all run":                 {[]string{"n4", "n5"}, "", "n4", ""},
		"the first one is away":   {[]string{"n4", "n5"}, "n4", "n5", ""},
		"the last one is away":    {[]string{"n4", "n5"}, "n5", "n4", ""},
		"the only one is away":    {[]string{"n4"}, "n4", "", ""},
		"the hosts are away":      {[]string{"n4", "n5"}, "n1", "", ""},
		"one has its share":       {[]string{"n1"}, "", "", "n1"},
		"the other one is away":   {[]string{"n4", "n1"}, "n4", "", "n1"},
		"nothing is to be filled": {nil, "", "", ""},
	} {
		l := peering.Layout{Hosts: hosts, Filling: c.filling}
		step, filled := nextFill(&l, nil, func(node string) bool { return node != c.away })
		if step.To != c.to || filled != c.filled {
			t.Errorf("%s: the move %+v, and %q has its share", name, step, filled)
		}
	}
}
