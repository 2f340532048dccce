package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A move may be decided, and the next one have begun, when the command asks: it is done if the table says so.
func TestAwaitMoveWhileAnotherFollows(t *testing.T) {
	t.Parallel()
	hosts := check.Must(shardmap.NewHosts([]shardmap.Place{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}, 2))(t)
	hosts = check.Must(hosts.Added(shardmap.Place{Node: "n4"}))(t)
	moved := check.Must(hosts.Moved(1, "n1", "n4"))(t)
	next := &peering.Move{Number: 9, Shard: 0, From: "n1", To: "n4", Step: peering.StepCopy}
	for name, c := range map[string]struct {
		hosts *shardmap.Hosts
		said  string
		want  string
	}{
		"it is done":     {moved, "shard 1 is on n2, n3, n4\n", ""},
		"it was stopped": {hosts, "", "another move has followed: shard 0 from n1 to n4"},
	} {
		ask := func(*cobra.Command, string, string, io.Reader) ([]byte, error) {
			return json.Marshal(peering.Layout{Version: 9, Hosts: c.hosts, Move: next})
		}
		var out strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		got := ""
		if err := awaitMove(cmd, ask, &peering.Move{Number: 5, Shard: 1, From: "n1", To: "n4"}, false); err != nil {
			got = err.Error()
		}
		if out.String() != c.said || got != c.want {
			t.Errorf("%s: %q, %q", name, out.String(), got)
		}
	}
}
