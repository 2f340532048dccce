package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// moveFault is a plan of package fault, for a move that is cancelled or not.
type moveFault struct {
	rule   string
	cancel bool
}

// moveFaults are the points of a move at which processes are killed. Those of a move that is cancelled have the rule by
// which it does not get further.
var moveFaults = []moveFault{
	{rule: "move/left=kill"},
	{rule: ""}, // without a kill, which tells what the move itself costs
	{rule: "move/arrived=kill"},
	{rule: "move/folder=kill"},
	{rule: "move/joined=kill"},
	{rule: "move/opened=kill"},
	{rule: "move/opened=kill@10"}, // while it copies
	{rule: "move/complete=kill"},
	{rule: "move/copied=kill"},
	{rule: "move/asked=kill"},
	{rule: "move/asked=kill@2"}, // some streams have moved
	{rule: "move/asked=kill@3"},
	{rule: "move/moved=kill"},
	{rule: "move/passing=kill"},
	{rule: "move/decided=kill"},
	{rule: "move/closed=kill"},
	{rule: "datadir/shard-forgotten=kill"},
	{rule: "move/deleted=kill"},
	{rule: "move/ended=kill"},
	{rule: "move/copied=error,move/cancelled=kill", cancel: true},
	{rule: "move/copied=error,move/closed=kill", cancel: true},
	{rule: "move/copied=error,move/deleted=kill", cancel: true},
}

const movedShards = 4

// planVar makes this test binary, started as the command, fail as a plan of package fault says.
const planVar = "TEST_FAULT_PLAN"

func failAsPlanned() {
	if text := os.Getenv(planVar); text != "" {
		plan, err := fault.ParsePlan(text)
		if err != nil {
			panic(err)
		}
		fault.Activate(plan)
	}
}

// chosenFaults returns the faults of a test that are to be tried: the first one, all with LAZULI_TEST_FULL, or those
// whose rule contains the value of a variable. A rule "" has the name "none".
func chosenFaults[F any](variable string, all []F, rule func(F) string) []F {
	name := os.Getenv(variable)
	if name == "" {
		return all[:check.Size(1, len(all))]
	}
	return slices.DeleteFunc(slices.Clone(all), func(f F) bool {
		return !strings.Contains(cmp.Or(rule(f), "none"), name)
	})
}

// A shard moves while clients write, and each process that comes to a point of the move is killed there and started
// again: the move ends as it would have, nothing that was acknowledged is lost, and the old node keeps its copy until
// the table has the new one. With LAZULI_TEST_FULL at each point, otherwise at one; LAZULI_TEST_MOVE_FAULT is a part of
// the names of those to be tried, "none" that of a move without a kill. The log says how long a write took at most.
func TestShardMovesWhileProcessesAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	t.Parallel()
	for _, f := range chosenFaults("LAZULI_TEST_MOVE_FAULT", moveFaults, func(f moveFault) string { return f.rule }) {
		t.Run(strings.ReplaceAll(cmp.Or(f.rule, "none"), "/", "-"), func(t *testing.T) {
			newMovingCluster(t, f.rule).test(f.cancel)
		})
	}
}

// movingCluster is a cluster of four nodes with four shards, each on three.
type movingCluster struct {
	*killrig.Cluster
	t     *testing.T
	rule  string
	shard int
	from  *killrig.Node
	to    *killrig.Node
	kills int
	moves int // that choose has chosen
}

func newMovingCluster(t *testing.T, rule string) *movingCluster {
	t.Helper()
	self, err := os.Executable()
	check.OK(t, err)
	var plan atomic.Pointer[string]
	plan.Store(&rule)
	cluster, err := killrig.StartCluster(t.Context(), t.TempDir(), 4, func(args ...string) *exec.Cmd {
		cmd := lazuliCommand(self, append(args, "--shards", fmt.Sprint(movedShards), "--cluster-copies", "3")...)
		if rule := *plan.Load(); rule != "" {
			cmd.Env = append(cmd.Env, planVar+"="+rule)
		}
		return cmd
	})
	check.OK(t, err)
	t.Cleanup(cluster.Close)
	none := ""
	plan.Store(&none) // for processes that are started again
	c := &movingCluster{Cluster: cluster, t: t, rule: rule,
		shard: check.Must(shardmap.New(movedShards))(t).Of(shardmap.Blob, auth.DevelopmentAccount)}
	hosts := c.layout().Hosts
	for _, n := range cluster.Nodes {
		switch on := hosts.On(n.Name, c.shard); {
		case on && c.from == nil:
			c.from = n
		case !on:
			c.to = n
		}
	}
	return c
}

// layout returns the newest layout that a node knows.
func (c *movingCluster) layout() (newest peering.Layout) {
	for _, n := range c.Nodes {
		r, err := n.HTTP.Get("http://" + n.Admin + "/admin/cluster/move")
		if err != nil {
			continue
		}
		var l peering.Layout
		if r.StatusCode == http.StatusOK && json.NewDecoder(r.Body).Decode(&l) == nil && l.Hosts != nil &&
			(newest.Hosts == nil || l.Version > newest.Version) {
			newest = l
		}
		r.Body.Close()
	}
	return newest
}

// lazuli runs a command of `lazuli cluster` at a node that runs.
func (c *movingCluster) lazuli(args ...string) (code int, output string) {
	c.t.Helper()
	for _, n := range c.Nodes {
		if n.Running() && n.Ready(c.t.Context()) {
			_, port, err := net.SplitHostPort(n.Admin)
			check.OK(c.t, err)
			code, output = runCommand(c.t, append(append([]string{"cluster"}, args...), "--admin-port", port)...)
			if code == exitOK {
				break
			}
		}
	}
	return code, output
}

// restart starts the processes again that were killed at a point.
func (c *movingCluster) restart() {
	c.t.Helper()
	for _, n := range c.Nodes {
		if !n.Running() {
			check.OK(c.t, n.Killed())
			c.kills++
			check.OK(c.t, n.Start())
		}
	}
}

func (c *movingCluster) test(cancel bool) {
	t := c.t
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, c.Cluster)
	check.Eventually(t, func() bool { return load.count() > 50 }, "clients write")
	before := load.slowest()
	if code, output := c.lazuli("move", fmt.Sprint(c.shard), c.from.Name, c.to.Name, "--no-wait"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, output)
	}
	began := time.Now()
	if cancel {
		check.Eventually(t, func() bool { return c.layout().Moving() != nil && c.layout().Move.Step == peering.StepCopy },
			"the new node copies")
		check.Eventually(t, func() bool { code, _ := c.lazuli("move", "--cancel", "--no-wait"); return code == exitOK },
			"the move is cancelled")
	}
	check.Eventually(t, func() bool {
		c.restart()
		// The folder first: a layout that is read later can only be newer.
		empty, err := datadir.ShardOf(c.from.Folder, c.shard).Empty()
		check.OK(t, err)
		l := c.layout()
		if empty && l.Move != nil && (cancel || l.Move.Step != peering.StepDelete) {
			t.Fatalf("the old node has nothing, and the move is at %q", l.Move.Step)
		}
		return l.Move != nil && l.Ended
	}, "the move ends")
	took := time.Since(began)
	for _, n := range c.Nodes {
		if !n.Running() {
			c.restart()
		}
	}
	check.OK(t, c.Whole(t.Context()))
	stop()
	load.check(t)
	t.Logf("the move ended after %v, with %d kills; the longest write took %v, and %v before", took, c.kills,
		load.slowest(), before)
	if c.kills == 0 && c.rule != "" {
		t.Error("no process came to the point")
	}
	check.Eventually(t, func() bool { code, _ := c.lazuli("status", "--wait=1m"); return code == exitOK },
		"every copy is complete")
	c.check(cancel)
}

// check checks who has the shard in the end, and the folders of the stopped nodes.
func (c *movingCluster) check(cancel bool) {
	t := c.t
	hosts := c.layout().Hosts
	if hosts.On(c.from.Name, c.shard) != cancel || hosts.On(c.to.Name, c.shard) == cancel {
		t.Errorf("shard %d is on %v after the move from %s to %s", c.shard, hosts.Shards[c.shard], c.from.Name, c.to.Name)
	}
	for _, n := range c.Nodes {
		check.OK(t, n.Terminate())
	}
	for _, n := range c.Nodes {
		empty, err := datadir.ShardOf(n.Folder, c.shard).Empty()
		check.OK(t, err)
		if empty == hosts.On(n.Name, c.shard) {
			t.Errorf("%s has files of the shard: %v, and is one of its nodes: %v", n.Name, !empty,
				hosts.On(n.Name, c.shard))
		}
		if code, output := runCommand(t, "fsck", n.Folder); code != exitOK || strings.Contains(output, "not copied") {
			t.Errorf("fsck of %s: exit code %d: %s", n.Name, code, output)
		}
	}
}
