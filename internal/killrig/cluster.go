package killrig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/freeport"
)

const (
	// readyTimeout bounds a question whether a node is ready.
	readyTimeout = 5 * time.Second
	// readyPause is the time between two of them.
	readyPause = 50 * time.Millisecond
	// wholeTimeout is the time that a cluster may take until all nodes are ready.
	wholeTimeout = 5 * time.Minute
)

// Cluster is a cluster of child processes behind a load balancer.
type Cluster struct {
	Nodes []*Node

	blob, queue, table *balancer
}

// StartCluster starts a cluster with data folders below folder, and returns when all nodes are ready. After an error
// nothing is left running.
func StartCluster(ctx context.Context, folder string, nodes int, command func(args ...string) *exec.Cmd) (*Cluster,
	error) {
	return StartInZones(ctx, folder, nodes, 0, command)
}

// StartInZones is StartCluster for nodes in zones, in turns: with three, the first node and the fourth are in zone a. 0
// is no zones.
func StartInZones(ctx context.Context, folder string, nodes, zones int,
	command func(args ...string) *exec.Cmd) (*Cluster, error) {
	// All addresses are known before the first node starts, as each needs the whole list.
	var peers, listen []string
	for i := range nodes {
		address, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		peer := nodeName(i) + "=" + address
		if zones > 0 {
			peer += "@" + string(rune('a'+i%zones))
		}
		listen, peers = append(listen, address), append(peers, peer)
	}
	return startAll(ctx, folder, nodes, command, func(i int) []string {
		return []string{"--cluster-node", nodeName(i), "--cluster-listen", listen[i], "--cluster-peers",
			strings.Join(peers, ",")}
	})
}

// StartOnWeb is StartCluster for nodes that are connected by a web, which the caller closes.
func StartOnWeb(ctx context.Context, folder string, web *Web, command func(args ...string) *exec.Cmd) (*Cluster,
	error) {
	return startAll(ctx, folder, len(web.listen), command, web.Arguments)
}

// nodeName returns the name of a node by its index.
func nodeName(i int) string { return fmt.Sprint("n", i+1) }

// startAll starts nodes with the arguments about their cluster.
func startAll(ctx context.Context, folder string, nodes int, command func(args ...string) *exec.Cmd,
	arguments func(i int) []string) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("killrig ", 8)), 0o600); err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: readyTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: nodes}}
	for i := range nodes {
		n, err := NewNode(nodeName(i), filepath.Join(folder, nodeName(i)), command, client)
		if err != nil {
			return nil, err
		}
		n.Args = append(arguments(i), "--cluster-secret-file", secret)
		c.Nodes = append(c.Nodes, n)
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return nil, err
		}
	}
	// Ready is not enough: copies must be complete, or the first kill would lose what only one node has.
	if err := c.Whole(ctx); err != nil {
		return nil, err
	}
	// Clients have one address, behind which nodes come and go, as behind a load balancer.
	if c.blob, err = newBalancer(c.Nodes, func(n *Node) string { return n.Blob }); err != nil {
		return nil, err
	}
	if c.queue, err = newBalancer(c.Nodes, func(n *Node) string { return n.Queue }); err != nil {
		return nil, err
	}
	c.table, err = newBalancer(c.Nodes, func(n *Node) string { return n.Table })
	return c, err
}

// ConnectionString returns that of the development account at the load balancer.
func (c *Cluster) ConnectionString() string {
	return c.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey)
}

// ConnectionStringOf returns that of an account at the load balancer.
func (c *Cluster) ConnectionStringOf(account, key string) string {
	return connectionString(account, key, c.blob.address(), c.queue.address(), c.table.address())
}

// connectionString returns that of an account at these addresses.
func connectionString(account, key, blob, queue, table string) string {
	return fmt.Sprintf(
		"DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%[1]s;QueueEndpoint=http://%[4]s/%[1]s;TableEndpoint=http://%[5]s/%[1]s;",
		account, key, blob, queue, table)
}

// Whole waits until all nodes are ready.
func (c *Cluster) Whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wholeTimeout, fmt.Errorf("not ready within %v", wholeTimeout))
	defer cancel()
	for _, n := range c.Nodes {
		for !n.Ready(ctx) {
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("node %s: %w: %s", n.Name, context.Cause(ctx), n.Reason())
			case !n.Running():
				return fmt.Errorf("node %s ended: %w\n%s", n.Name, n.Err(), n.Output())
			}
			rest(ctx, readyPause)
		}
	}
	return nil
}

// Harass kills one node after the other, starts it again after a time up to down, and waits until the cluster is whole,
// until ctx ends. All nodes are ready then. It returns the number of kills.
func (c *Cluster) Harass(ctx context.Context, random *rand.Rand, down time.Duration,
	say func(format string, args ...any)) (kills int, err error) {
	for ctx.Err() == nil {
		n, length := c.Nodes[random.IntN(len(c.Nodes))], time.Duration(random.Int64N(int64(down)))
		n.Kill()
		kills++
		rest(ctx, length)
		if err := n.Start(); err != nil {
			return kills, err
		}
		began := time.Now()
		if err := c.Whole(context.WithoutCancel(ctx)); err != nil {
			return kills, err
		}
		say("node %s was killed for %v; the cluster is whole again %v after its start", n.Name,
			length.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		rest(ctx, time.Second)
	}
	return kills, nil
}

// Close stops the load balancer and the nodes.
func (c *Cluster) Close() {
	for _, b := range []*balancer{c.blob, c.queue, c.table} {
		if b != nil {
			b.close()
		}
	}
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// errNoNode: no node is ready.
var errNoNode = errors.New("no node is ready")

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
