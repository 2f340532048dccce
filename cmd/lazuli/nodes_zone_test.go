package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Nine nodes in three zones, and the three of one zone are killed at once: each shard goes on with two copies, and its
// clients wait for new leaders at most. It runs only with LAZULI_TEST_FULL. The log has the longest writes, which on a
// busy machine are longer than the elections: those before the kill tell by how much.
func TestAZoneIsKilled(t *testing.T) {
	if !check.Size(false, true) {
		t.Skip("starts nine nodes, which is done with " + check.FullVariable)
	}
	const nodes, zones, shards = 9, 3, 9
	placed := check.Must(shardmap.New(shards))(t)
	names := make([]string, shards)
	var lines []byte
	for i, left := 0, shards; left > 0; i++ {
		name := fmt.Sprint("account", i)
		if n := placed.Of(shardmap.Table, name); names[n] == "" {
			names[n], left = name, left-1
			lines = fmt.Appendf(lines, "%s:%s\n", name, auth.DevelopmentKey)
		}
	}
	accounts := filepath.Join(t.TempDir(), "accounts")
	check.OK(t, os.WriteFile(accounts, lines, 0o600))
	self := check.Must(os.Executable())(t)
	cluster, err := killrig.StartInZones(t.Context(), t.TempDir(), nodes, zones, func(args ...string) *exec.Cmd {
		return lazuliCommand(self, append(args, "--shards", fmt.Sprint(shards), "--cluster-copies", "3", "--accounts-file",
			accounts)...)
	})
	check.OK(t, err)
	t.Cleanup(cluster.Close)
	var killed, left []*killrig.Node
	for i, n := range cluster.Nodes {
		if i%zones == 0 {
			killed = append(killed, n)
		} else {
			left = append(left, n)
		}
	}
	// A client for each shard, at a node that stays.
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	clients := make([]*zoneClient, shards)
	for n, name := range names {
		c := &zoneClient{}
		clients[n] = c
		service := check.Must(aztables.NewServiceClientFromConnectionString(
			left[n%len(left)].ConnectionStringOf(name, auth.DevelopmentKey), &aztables.ClientOptions{
				ClientOptions: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{waiting{}}}}))(t)
		c.table = service.NewClient("written")
		_, err := c.table.CreateTable(ctx, nil)
		check.OK(t, err)
		done.Go(func() { c.write(ctx) })
	}
	written := func(least int) func() bool {
		before := make([]int, shards)
		for n, c := range clients {
			before[n] = c.count()
		}
		return func() bool {
			for n, c := range clients {
				if c.count() < before[n]+least {
					return false
				}
			}
			return true
		}
	}
	check.Eventually(t, written(20), "clients write to all shards")
	calm := longest(clients)
	for _, n := range killed {
		check.OK(t, n.Signal(syscall.SIGKILL))
	}
	began := time.Now()
	check.Eventually(t, written(20), "all shards go on with two copies")
	t.Logf("all shards have taken 20 writes within %v", time.Since(began))
	pauses := longest(clients)
	t.Logf("the longest write to each shard before the kill: %v", calm)
	t.Logf("and then: %v", pauses)
	for _, n := range killed {
		n.Kill()
		check.OK(t, n.Start())
	}
	check.OK(t, cluster.Whole(t.Context()))
	stop()
	done.Wait()
	t.Logf("while the zone came back: %v", longest(clients))
	for _, c := range clients {
		c.check(t)
	}
}

// zoneClient writes entities to one account, one after the other.
type zoneClient struct {
	table *aztables.Client

	mu      sync.Mutex // guards the rest
	names   []string   // that were acknowledged
	longest waiting    // since it was last asked for
}

func (c *zoneClient) write(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%06d", i)
		waited := waiting{}
		began := time.Now()
		_, err := c.table.UpsertEntity(context.WithValue(ctx, waitingKey{}, &waited),
			fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, name), nil)
		waited.took = time.Since(began)
		c.mu.Lock()
		if err == nil {
			c.names = append(c.names, name)
		}
		if ctx.Err() == nil && waited.took > c.longest.took {
			c.longest = waited
		}
		c.mu.Unlock()
	}
}

func (c *zoneClient) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

// check reads everything that was acknowledged.
func (c *zoneClient) check(t *testing.T) {
	t.Helper()
	for _, name := range c.names {
		if _, err := c.table.GetEntity(t.Context(), "p", name, nil); err != nil {
			t.Errorf("entity %s: %v", name, err)
		}
	}
}

// longest returns the longest writes of clients since it was called before, in rising order.
func longest(clients []*zoneClient) (list []time.Duration) {
	for _, c := range clients {
		c.mu.Lock()
		list = append(list, c.longest.took)
		c.longest = waiting{}
		c.mu.Unlock()
	}
	slices.Sort(list)
	return list
}
