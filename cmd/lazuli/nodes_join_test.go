package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/freeport"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// joinFault is a point of a join, and whether the process that is killed there is the member that takes the node in.
// The points of the moves by which it gets its share are among the moveFaults.
type joinFault struct {
	rule   string
	member bool
}

var joinFaults = []joinFault{
	{"join/added=kill", true},
	{"join/adding=kill", true},
	{"join/entered=kill", false},
	{"join/started=kill", false},
	{"join/started=kill@2", false}, // as a member
	{"join/member=kill", false},
	{"move/arrived=kill", false},
	{"move/complete=kill", false},
}

// A further node joins while clients write, and each process that comes to a point of that is killed there and started
// again: the node has its share in the end, nothing that was acknowledged is lost, and all copies are complete. With
// LAZULI_TEST_FULL at each point, otherwise at one; LAZULI_TEST_JOIN_FAULT is a part of the names of those to be tried.
func TestANodeJoinsWhileProcessesAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	for _, f := range chosenFaults("LAZULI_TEST_JOIN_FAULT", joinFaults, func(f joinFault) string { return f.rule }) {
		t.Run(strings.ReplaceAll(f.rule, "/", "-"), func(t *testing.T) {
			members, further := "", f.rule
			if f.member {
				members, further = f.rule, ""
			}
			newMovingCluster(t, members).testJoin(further)
		})
	}
}

// further adds a node that is in no other node's list of peers. Its first process fails as a rule says.
func (c *movingCluster) further(name, rule string) *killrig.Node {
	t, first := c.t, c.Nodes[0]
	t.Helper()
	var started atomic.Bool
	n := check.Must(killrig.NewNode(name, filepath.Join(filepath.Dir(first.Folder), name), func(args ...string) *exec.Cmd {
		cmd := first.Command(args...)
		if rule != "" && !started.Swap(true) {
			cmd.Env = append(cmd.Env, planVar+"="+rule)
		}
		return cmd
	}, first.HTTP))(t)
	address := check.Must(freeport.Address())(t)
	n.Args = slices.Clone(first.Args)
	for flag, value := range map[string]string{"--cluster-node": name, "--cluster-listen": address,
		"--cluster-peers": n.Args[slices.Index(n.Args, "--cluster-peers")+1] + "," + name + "=" + address} {
		n.Args[slices.Index(n.Args, flag)+1] = value
	}
	c.Nodes = append(slices.Clone(c.Nodes), n)
	t.Cleanup(n.Kill)
	return n
}

func (c *movingCluster) testJoin(rule string) {
	t := c.t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the layout is %+v", c.layout())
			for _, n := range c.Nodes {
				t.Logf("%s: %s", n.Name, n.Output())
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, c.Cluster)
	check.Eventually(t, func() bool { return load.count() > 50 }, "clients write")
	n := c.further("n5", rule)
	check.OK(t, n.Start())
	began := time.Now()
	share := movedShards * 3 / 5
	check.Eventually(t, func() bool {
		c.restart()
		l := c.layout()
		return l.Hosts != nil && len(l.Hosts.Of(n.Name)) >= share && len(l.Filling) == 0 && l.Moving() == nil
	}, "the node has its share")
	took := time.Since(began)
	c.restart()
	check.OK(t, c.Whole(t.Context()))
	stop()
	load.check(t)
	t.Logf("the node had its share after %v, with %d kills; the longest write took %v", took, c.kills, load.slowest())
	if c.kills == 0 {
		t.Error("no process came to the point")
	}
	check.Eventually(t, func() bool { code, _ := c.lazuli("status", "--wait=1m"); return code == exitOK },
		"every copy is complete")
	c.checkWhole()
}
