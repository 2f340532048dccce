package main

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// lostFaults are the points of the replacement of a lost node at which processes are killed.
var lostFaults = []string{
	"lost/begun=kill",
	"", // without a kill, which tells what the replacement itself costs
	"lost/declared=kill",
	"move/arrived=kill",
	"move/joined=kill",
	"move/opened=kill",
	"move/complete=kill",
	"move/verified=kill",
	"move/asked=kill",
	"move/asked=kill@3",
	"move/moved=kill",
	"move/left=kill",
	"move/decided=kill",
	"lost/begun=kill@2", // another shard
	"lost/forgotten=kill",
	"lost/gone=kill",
}

// A node with shards is killed while clients write, and its folder is gone. Its shards get another node, and it leaves:
// nothing that was acknowledged is lost, and all copies are complete. Each process that comes to a point of that is
// killed there and started again. When the old folder comes back, its process says that it is lost, and serves
// nothing. With LAZULI_TEST_FULL at each point, otherwise at one; LAZULI_TEST_LOST_FAULT is a part of the names of
// those to be tried, "none" that without a kill.
func TestALostNodeIsReplacedWhileProcessesAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	t.Parallel()
	for _, rule := range chosenFaults("LAZULI_TEST_LOST_FAULT", lostFaults, func(rule string) string { return rule }) {
		t.Run(strings.ReplaceAll(cmp.Or(rule, "none"), "/", "-"), func(t *testing.T) {
			newMovingCluster(t, rule).testLost()
		})
	}
}

func (c *movingCluster) testLost() {
	t, lost := c.t, c.from
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the layout is %+v", c.layout())
			for _, n := range append(slices.Clone(c.Nodes), lost) {
				t.Logf("%s: %s", n.Name, n.Output())
			}
		}
	})
	if code, output := c.lazuli("leave", lost.Name, "--lost", "--yes"); code == exitOK ||
		!strings.Contains(output, "the node is running") {
		t.Fatalf("a node that answers is given up: exit code %d: %s", code, output)
	}
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, c.Cluster)
	check.Eventually(t, func() bool { return load.count() > 50 }, "clients write")
	lost.Kill()
	old := lost.Folder + ".old"
	check.OK(t, os.Rename(lost.Folder, old))
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n *killrig.Node) bool { return n == lost })
	var output string
	check.Eventually(t, func() bool {
		c.restart()
		var code int
		code, output = c.lazuli("leave", lost.Name, "--lost", "--yes", "--no-wait")
		return code == exitOK
	}, "the node is given up")
	began := time.Now()
	check.Eventually(t, func() bool {
		c.restart()
		hosts := c.layout().Hosts
		return hosts != nil && !slices.Contains(hosts.Names(), lost.Name)
	}, "the node has left")
	took := time.Since(began)
	c.restart()
	check.OK(t, c.Whole(t.Context()))
	check.Eventually(t, func() bool {
		var code int
		code, output = c.lazuli("status", "--wait=1m")
		return code == exitOK
	}, "every copy is complete")
	stop()
	load.check(t)
	t.Logf("the node left after %v, with %d kills; the longest write took %v; %s", took, c.kills, load.slowest(), output)
	if c.kills == 0 && c.rule != "" {
		t.Error("no process came to the point")
	}
	check.OK(t, os.Rename(old, lost.Folder))
	c.refusesLost(lost)
	c.checkWhole()
}

// refusesLost starts a node whose folder is lost: it ends, and says why.
func (c *movingCluster) refusesLost(lost *killrig.Node) {
	c.t.Helper()
	check.OK(c.t, lost.Start())
	check.Eventually(c.t, func() bool {
		if lost.Ready(c.t.Context()) {
			c.t.Fatal("a node whose folder is lost serves")
		}
		return !lost.Running()
	}, "the node whose folder is lost ends")
	if text := lost.Output(); !strings.Contains(text, "the data folder of this node is lost") {
		c.t.Errorf("the node whose folder is lost says %s", text)
	}
}

// checkWhole stops the nodes, and checks that each shard is whole on three of them.
func (c *movingCluster) checkWhole() {
	c.t.Helper()
	hosts := c.layout().Hosts
	for _, n := range c.Nodes {
		check.OK(c.t, n.Terminate())
	}
	for _, n := range c.Nodes {
		for shard := range hosts.Shards {
			empty, err := datadir.ShardOf(n.Folder, shard).Empty()
			check.OK(c.t, err)
			if empty == hosts.On(n.Name, shard) {
				c.t.Errorf("%s has files of shard %d: %v, and is one of its nodes: %v", n.Name, shard, !empty,
					hosts.On(n.Name, shard))
			}
		}
		if code, output := runCommand(c.t, "fsck", n.Folder); code != exitOK || strings.Contains(output, "not copied") {
			c.t.Errorf("fsck of %s: exit code %d: %s", n.Name, code, output)
		}
	}
}
