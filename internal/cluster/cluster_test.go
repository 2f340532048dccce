package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// testCluster is a cluster of nodes in this process.
type testCluster struct {
	peers  []peering.Peer
	dirs   map[string]string
	logs   map[string]*testlog.Buffer
	secret string
	mu     sync.Mutex // guards nodes
	nodes  map[string]*testNode
}

// testNode is a node with its server.
type testNode struct {
	*natsserver.Server
	*Node
}

func (n *testNode) Close() { n.Server.Close() }

// config configures a testNode.
type config struct {
	natsserver.Config
	Cluster *peering.Config
	Waiting func(reason string)
}

// start starts a node.
func start(ctx context.Context, c config) (*testNode, error) {
	n := New(*c.Cluster, c.Waiting, nil)
	c.Member = n.Join
	s, err := natsserver.StartContext(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	return &testNode{s, n}, nil
}

func newCluster(t *testing.T) *testCluster {
	t.Helper()
	c := &testCluster{dirs: map[string]string{}, logs: map[string]*testlog.Buffer{}, nodes: map[string]*testNode{}}
	for _, name := range []string{"n1", "n2", "n3"} {
		c.peers = append(c.peers, peering.Peer{Name: name, Address: fmt.Sprint("127.0.0.1:", check.FreePort(t))})
		c.dirs[name], c.logs[name] = filepath.Join(t.TempDir(), "cluster"), &testlog.Buffer{}
	}
	c.secret = filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(c.secret, []byte(strings.Repeat("s3cret", 6)), 0o600))
	t.Cleanup(func() {
		for _, name := range []string{"n1", "n2", "n3"} {
			c.stop(name)
		}
		if t.Failed() {
			for name, log := range c.logs {
				t.Logf("%s:\n%s", name, log)
			}
		}
	})
	return c
}

func (c *testCluster) config(name string) config {
	p := peering.Config{Node: name, Peers: c.peers, SecretFile: c.secret}
	for _, peer := range c.peers {
		if peer.Name == name {
			p.Listen = peer.Address
		}
	}
	return config{Cluster: &p,
		Config: natsserver.Config{Dir: c.dirs[name], Log: slog.New(slog.NewTextHandler(c.logs[name], nil))}}
}

func (c *testCluster) start(t *testing.T, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	var wait sync.WaitGroup
	for _, name := range names {
		wait.Go(func() {
			s, err := start(ctx, c.config(name))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.nodes[name] = s
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (c *testCluster) stop(name string) {
	c.mu.Lock()
	s := c.nodes[name]
	delete(c.nodes, name)
	c.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// publish publishes to the stream s through a node until it is acknowledged.
func (c *testCluster) publish(t *testing.T, node, text string) {
	t.Helper()
	js := check.Must(jetstream.New(c.nodes[node].Conn()))(t)
	check.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s.a", []byte(text))
		return err == nil
	}, "%s is not acknowledged by %s", text, node)
}

func (c *testCluster) last(t *testing.T, node string) string {
	t.Helper()
	js := check.Must(jetstream.New(c.nodes[node].Conn()))(t)
	var text string
	check.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "s")
		if err != nil {
			return false
		}
		m, err := stream.GetLastMsgForSubject(ctx, "s.a")
		if err == nil {
			text = string(m.Data)
		}
		return err == nil
	}, "no record at %s", node)
	return text
}

// createStream creates the stream s on three nodes.
func (c *testCluster) createStream(t *testing.T) {
	t.Helper()
	js := check.Must(jetstream.New(c.nodes["n1"].Conn()))(t)
	check.Eventually(t, func() bool {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s.*"}, Replicas: 3})
		return err == nil
	}, "a stream on three nodes")
}

// awaitCopies waits until each node has a current copy of the stream s.
func (c *testCluster) awaitCopies(t *testing.T) {
	t.Helper()
	js := check.Must(jetstream.New(c.nodes["n1"].Conn()))(t)
	check.Eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), "s")
		if err != nil { // of a busy machine
			return false
		}
		info, err := stream.Info(t.Context())
		if err != nil || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
			return false
		}
		return !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
	}, "three current copies")
}

// TestClusterLosesAndReplacesANode forms a cluster from empty folders, loses a majority, and replaces a node whose
// folder is lost.
func TestClusterLosesAndReplacesANode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(t, "n1", "n2", "n3")
	n1 := c.nodes["n1"]
	if n1.Replicas() != 3 || !n1.Shared() || n1.InMemory() || n1.ClusterNode() != "n1" {
		t.Errorf("replicas %d, shared %v, in memory %v, node %q", n1.Replicas(), n1.Shared(), n1.InMemory(),
			n1.ClusterNode())
	}
	c.createStream(t)
	c.publish(t, "n2", "one")
	if got := c.last(t, "n3"); got != "one" {
		t.Errorf("n3 has %q", got)
	}
	var status *Status
	check.Eventually(t, func() bool {
		status = check.Must(n1.Status(t.Context()))(t)
		// A node of a busy machine may not answer in time.
		silent := slices.ContainsFunc(status.Nodes, func(at NodeStatus) bool { return at.Report == nil })
		return status.Leader != "" && len(status.Nodes) == 3 && !silent
	}, "a status with a leader and three nodes")
	for _, at := range status.Nodes {
		if at.Report == nil || at.Report.State != peering.Member || !at.Report.SyncAlways || at.Problem != "" {
			t.Errorf("status of %s: %+v, %s", at.Name, at.Report, at.Problem)
		}
	}

	// A node that runs cannot be removed, nor can an unknown one.
	if err := n1.Remove(t.Context(), "n2"); !errors.Is(err, ErrNodeConnected) {
		t.Errorf("removing a running node: %v", err)
	}
	if err := n1.Remove(t.Context(), "n9"); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("removing an unknown node: %v", err)
	}

	// Without a majority, a node says so at once, and goes on by itself when the majority is back.
	c.stop("n2")
	c.stop("n3")
	check.Eventually(t, func() bool {
		return errors.Is(n1.Suspect("s"), natsserver.ErrNoMajority) && errors.Is(n1.Healthy(), natsserver.ErrNoMajority)
	}, "the majority is missed")
	if err := n1.Healthy(); !strings.Contains(err.Error(), "n2 and n3") {
		t.Errorf("%v: want the missing nodes", err)
	}
	if err := n1.Remove(t.Context(), "n2"); !errors.Is(err, natsserver.ErrNoMajority) {
		t.Errorf("removing a node without a majority: %v", err)
	}
	c.start(t, "n2")
	check.Eventually(t, func() bool { return n1.Healthy() == nil }, "n1 is ready again")
	c.publish(t, "n1", "two")

	// n3 has lost its folder: it is refused until it has been removed, and then has everything.
	old := filepath.Join(t.TempDir(), "old")
	check.OK(t, os.Rename(c.dirs["n3"], old))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	reasons := &testlog.Buffer{}
	config := c.config("n3")
	config.Waiting = func(reason string) { fmt.Fprintln(reasons, reason) }
	go func() {
		s, err := start(ctx, config)
		if s != nil {
			s.Close()
		}
		waited <- err
	}()
	check.Eventually(t, func() bool {
		return strings.Contains(c.logs["n1"].String(), "another data folder than before") &&
			strings.Contains(c.logs["n1"].String(), "lazuli cluster leave n3")
	}, "n1 says why n3 is refused, and what to do")
	check.Eventually(t, func() bool { return strings.Contains(reasons.String(), "not accepted this node") },
		"n3 says what to do")
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("a node with another folder started: %v", err)
	}
	check.Eventually(t, func() bool { return n1.Remove(t.Context(), "n3") == nil }, "n3 is removed")
	c.start(t, "n3")
	check.Eventually(t, func() bool { return check.Must(n1.Status(t.Context()))(t).Copies.Short == 0 },
		"all copies, as n1 sees it")
	c.awaitCopies(t)

	// The folder that was removed does not come back as a member, not even in place of the new one.
	c.stop("n3")
	ctx, cancel = context.WithCancel(t.Context())
	config = c.config("n3")
	config.Dir = old
	go func() {
		s, err := start(ctx, config)
		if s != nil {
			s.Close()
		}
		waited <- err
	}()
	for _, name := range []string{"n1", "n2"} {
		check.Eventually(t, func() bool { return strings.Contains(c.logs[name].String(), "was removed from the cluster") },
			"%s refuses the old folder", name)
	}
	cancel() // unless it has met n1 or n2, which connect to it
	if err := <-waited; !errors.Is(err, context.Canceled) && !errors.Is(err, ErrRemoved) {
		t.Errorf("a node with the old folder started: %v", err)
	}
	c.start(t, "n3")
}

// TestClusterHealsNodes flips a bit in the files of one node, and stops JetStream on another one. In the end they are
// the majority.
func TestClusterHealsNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(t, "n1", "n2", "n3")
	n1 := c.nodes["n1"]
	c.createStream(t)
	c.publish(t, "n2", "one")
	c.awaitCopies(t)

	// A bit of n3's stream flips while it is stopped: it leaves, says so, and joins with an empty folder after it was
	// removed.
	c.stop("n3")
	folder := filepath.Join(c.dirs["n3"], n1.site.Identity().Cluster)
	flipEachFile(t, folder)
	blocks := check.Must(filepath.Glob(filepath.Join(folder, "jetstream", "$G", "streams", "s", "msgs", "*.blk")))(t)
	flip(t, blocks[0], 20)
	joined := make(chan struct{})
	go func() { defer close(joined); c.start(t, "n3") }()
	check.Eventually(t, func() bool {
		return strings.Contains(c.logs["n3"].String(), "stream s: block") &&
			strings.Contains(c.logs["n3"].String(), `command="lazuli cluster leave n3"`)
	}, "n3 finds the damage")
	check.Eventually(t, func() bool { return n1.Remove(t.Context(), "n3") == nil }, "n3 is removed")
	<-joined
	if kept := check.Must(filepath.Glob(c.dirs["n3"] + ".damaged-*"))(t); len(kept) != 1 {
		t.Errorf("the damaged folder is not kept: %v", kept)
	}

	// A node that has joined knows the others as they know each other, and refuses what they refuse.
	if got, want := c.nodes["n3"].site.Roster().Members, n1.site.Roster().Members; !maps.Equal(got, want) {
		t.Errorf("n3 knows the nodes as %v, and n1 as %v", got, want)
	}
	check.Eventually(t, func() bool {
		return maps.Equal(c.nodes["n2"].site.Roster().Members, n1.site.Roster().Members)
	}, "n2 knows the nodes as n1 does")

	// JetStream stops on one node, as when its disk refuses writes: the node says so, and starts it again by itself.
	c.nodes["n2"].Fail(errors.New("the test"))
	if err := c.nodes["n2"].Healthy(); !errors.Is(err, natsserver.ErrStorage) &&
		(err != nil || !strings.Contains(c.logs["n2"].String(), "cannot write its copies")) { // it may be well again
		t.Errorf("a node whose JetStream has stopped: %v", err)
	}
	check.Eventually(t, func() bool { return c.nodes["n2"].Healthy() == nil }, "n2 recovers")
	c.publish(t, "n2", "after a failure")
	c.awaitCopies(t) // without n1 there is no majority of two
	c.stop("n1")
	c.publish(t, "n3", "three")
	if got := c.last(t, "n2"); got != "three" {
		t.Errorf("n2 has %q", got)
	}
}

// TestClusterRefusesStrangers starts nodes that are not members of a running cluster; its nodes refuse them.
func TestClusterRefusesStrangers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start(t, "n1", "n2", "n3")
	c.stop("n3")
	secret := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(secret, []byte(strings.Repeat("another", 6)), 0o600))
	for _, tc := range []struct {
		name   string
		change func(*config)
		says   string // reason that the node gives
		logs   string // what a node of the cluster logs
	}{
		{"another secret", func(c *config) { c.Cluster.SecretFile = secret }, "do not trust each other",
			"the other node has another secret"},
		{"no secret", func(c *config) { c.Cluster.SecretFile = "" }, "no peer has founded", ""},
		{"another cluster", func(c *config) {
			check.OK(t, os.MkdirAll(c.Dir, 0o700))
			check.OK(t, os.WriteFile(filepath.Join(c.Dir, "node.json"),
				[]byte(`{"version": 1, "cluster": "elsewhere", "node": "n3", "incarnation": "other", "state": "member"}`), 0o600))
		}, "and this node to cluster elsewhere", "it belongs to cluster elsewhere"},
		{"a second node of a name", func(config *config) {
			config.Cluster.Node, config.Cluster.Listen = "n2", c.peers[2].Address
		}, "it has not accepted this node", "two nodes are named n2"},
		{"swapped addresses", func(config *config) {
			config.Cluster.Peers = slices.Clone(config.Cluster.Peers)
			p := config.Cluster.Peers
			p[0].Address, p[1].Address = p[1].Address, p[0].Address
			p[2].Address = fmt.Sprint("127.0.0.1:", check.FreePort(t))
			config.Cluster.Node, config.Cluster.Listen = "n3", p[2].Address
		}, "is that of node", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := c.config("n3")
			config.Dir = filepath.Join(t.TempDir(), "cluster")
			tc.change(&config)
			reasons := &testlog.Buffer{}
			config.Waiting = func(reason string) { fmt.Fprintln(reasons, reason) }
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				s, err := start(ctx, config)
				if s != nil {
					s.Close()
				}
				done <- err
			}()
			check.Eventually(t, func() bool {
				return strings.Contains(reasons.String(), tc.says) &&
					strings.Contains(c.logs["n1"].String()+c.logs["n2"].String(), tc.logs)
			}, "want %q from the node and %q in the log; it says %s", tc.says, tc.logs, reasons)
			cancel()
			if err := <-done; err == nil {
				t.Error("it became a member")
			}
		})
	}
	check.Eventually(t, func() bool { return c.nodes["n1"].Healthy() == nil }, "the cluster is well after all that")
}

// ended is a connection that was closed before its check: the server then has no address of it.
type ended struct{ server.ClientAuthentication }

func (ended) RemoteAddress() net.Addr { return nil }

func TestConnectionThatEndedIsRefused(t *testing.T) {
	if (admission{&Node{}}).Check(ended{}) {
		t.Error("it was accepted")
	}
}

// The founder of a cluster waits for nodes that were connected and start again, and for those that come meanwhile, but
// not without end.
func TestFounderAwaitsMembers(t *testing.T) {
	t.Parallel()
	round, asked := 0, map[string]int{}
	connected := func() []string {
		round++
		return map[int][]string{1: {"n2"}, 2: {}, 3: {"n3"}}[round]
	}
	err := awaitMembers(t.Context(), check.Patience, connected, func(_ context.Context, name string) bool {
		asked[name]++
		return asked[name] == 4
	})
	if want := map[string]int{"n2": 4, "n3": 4}; err != nil || !maps.Equal(asked, want) {
		t.Errorf("the nodes were asked %v times, want %v: %v", asked, want, err)
	}

	always := func() []string { return []string{"n2"} }
	never := func(context.Context, string) bool { return false }
	if err := awaitMembers(t.Context(), time.Millisecond, always, never); err != nil {
		t.Errorf("a node that does not become a member: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitMembers(ctx, check.Patience, always, never); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was cancelled: %v", err)
	}
}

func TestClusterClocks(t *testing.T) {
	t.Parallel()
	sent := time.Unix(1000, 0)
	for _, tc := range []struct {
		took, theirs, want time.Duration
	}{
		{time.Second, 0, 0}, {time.Second, time.Second, 0}, {time.Second, 500 * time.Millisecond, 0},
		{time.Second, 3 * time.Minute, 3*time.Minute - time.Second}, {time.Second, -2 * time.Minute, -2 * time.Minute},
	} {
		if got := clockOffset(sent, tc.took, sent.Add(tc.theirs)); got != tc.want {
			t.Errorf("asked for %v, answered %v after the question: offset %v, want %v", tc.took, tc.theirs, got, tc.want)
		}
	}
	// What is added to the own clock, by the clocks of the others: those of a majority count.
	day := 24 * time.Hour
	for _, tc := range []struct {
		others []time.Duration
		want   time.Duration
	}{
		{nil, 0}, {[]time.Duration{0, day}, 0}, {[]time.Duration{0, -day}, 0}, {[]time.Duration{-day, -day}, -day},
		{[]time.Duration{day, day}, day}, {[]time.Duration{time.Second, time.Second}, 0}, {[]time.Duration{-day, day}, 0},
		{[]time.Duration{day, 2 * day}, day}, {[]time.Duration{-day}, -day}, {[]time.Duration{day}, 0},
		{[]time.Duration{0, 0, day, day}, 0}, {[]time.Duration{0, day, day, day}, day},
	} {
		clocks, connected := map[string]time.Duration{"gone": day}, []string{}
		for i, offset := range tc.others {
			connected = append(connected, fmt.Sprint(i))
			clocks[fmt.Sprint(i)] = offset
		}
		if got := correction(clocks, connected); got != tc.want {
			t.Errorf("the other clocks are ahead by %v: the correction is %v, want %v", tc.others, got, tc.want)
		}
	}
	log := &testlog.Buffer{}
	site := check.Must(peering.Open(peering.Config{Node: "n1", Listen: "127.0.0.1:1", Dir: t.TempDir(),
		Peers: []peering.Peer{{Name: "n1", Address: "127.0.0.1:1"}, {Name: "n2", Address: "127.0.0.1:2"},
			{Name: "n3", Address: "127.0.0.1:3"}}}))(t)
	n := &Node{config: peering.Config{Log: slog.New(slog.NewTextHandler(log, nil))}, site: site,
		clocks: map[string]time.Duration{}}
	for _, offset := range []time.Duration{time.Second, 3 * time.Minute, 3 * time.Minute, 0} {
		n.noteClock("n2", offset)
	}
	if got := strings.Count(log.String(), "the clocks of two nodes differ"); got != 1 {
		t.Errorf("logged %d times, want once:\n%s", got, log)
	}
	if !strings.Contains(log.String(), "peer=n2 ahead=3m0s") || !strings.Contains(log.String(), "agree again") {
		t.Errorf("want node and offset, and the end of it:\n%s", log)
	}
}

// flip flips a bit of a file.
func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f := check.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	b := make([]byte, 1)
	check.Must(f.ReadAt(b, offset))(t)
	b[0] ^= 4
	check.Must(f.WriteAt(b, offset))(t)
	check.OK(t, f.Close())
}

// flipEachFile flips bits in each file of a stopped node that has checksums, and undoes it. VerifyTree must find each
// of them, and nothing before.
func flipEachFile(t *testing.T, dir string) {
	t.Helper()
	if found, err := jetstreamfiles.VerifyTree(dir); err != nil || len(found) > 0 {
		t.Errorf("a node that was stopped has damaged files: %v %v", found, err)
	}
	kinds := map[string]int{}
	check.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		kind := filepath.Ext(path)
		if d.Name() == "meta.inf" || d.Name() == "meta.sum" {
			kind = d.Name()
		} else if strings.HasPrefix(d.Name(), "snap.") {
			kind = "snapshot"
		} else if kind != ".blk" {
			return nil // without a checksum, or an index that the server makes again
		}
		for _, offset := range []int64{info.Size() - 1, info.Size() / 2, min(9, info.Size()-1)} {
			flip(t, path, offset)
			if found, err := jetstreamfiles.VerifyTree(dir); err != nil || len(found) != 1 {
				t.Errorf("%s, flipped at %d of %d: found %v, %v", path, offset, info.Size(), found, err)
			}
			flip(t, path, offset)
		}
		kinds[kind]++
		return nil
	}))
	for _, kind := range []string{".blk", "meta.inf", "meta.sum"} {
		if kinds[kind] == 0 {
			t.Errorf("the node has no file of kind %s", kind)
		}
	}
	t.Log(kinds)
}
