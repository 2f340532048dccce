package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
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
		"a server alone":     {nil, ErrNotClustered, ""},
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
