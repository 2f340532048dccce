// Package natscluster runs a cluster of NATS servers in the process of a test. Servers can be stopped, started again on
// the same files, and cut off from the others.
package natscluster

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// startTimeout is the time that a server or the cluster may take to become ready.
const startTimeout = 2 * time.Minute

// MaxPayload is the largest message of the servers, in bytes.
const MaxPayload = 2 << 20

// Cluster is a cluster of servers. Its methods must be called by one goroutine, except Conn and what Running returns.
type Cluster struct {
	t     testing.TB
	nodes []*node

	mu sync.Mutex // guards the servers of nodes while they are replaced
}

// node is one server, and the links by which the others reach it.
type node struct {
	dir    string
	client string  // address for clients
	route  string  // address for the other servers
	links  []*link // by index of the other server
	server *server.Server
}

// Start starts a cluster of n servers, or a single server for 1, with streams in temporary files, and waits until it
// has a leader. It stops them at the end of the test.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range n {
		c.nodes = append(c.nodes, &node{dir: t.TempDir(), client: check.FreeAddress(t), route: check.FreeAddress(t),
			links: make([]*link, n)})
	}
	for _, to := range c.nodes {
		for i := range c.nodes {
			to.links[i] = newLink(t, to.route)
		}
	}
	t.Cleanup(func() {
		for i, to := range c.nodes {
			c.Stop(i)
			for _, l := range to.links {
				l.close()
			}
		}
	})
	for i := range c.nodes {
		c.Start(i)
	}
	c.WaitReady()
	return c
}

// Start starts a stopped server.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	n := c.nodes[i]
	var routes []string
	for j, other := range c.nodes {
		if j != i {
			routes = append(routes, "nats://"+other.links[i].address())
		}
	}
	o := &server.Options{
		ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: portOf(n.client), JetStream: true, StoreDir: n.dir,
		MaxPayload:         MaxPayload,
		JetStreamMaxMemory: 1 << 40, JetStreamMaxStore: 1 << 60, NoSigs: true, NoLog: true,
		// A busy machine is no reason to end a connection.
		WriteDeadline: time.Minute,
	}
	if len(c.nodes) > 1 { // otherwise JetStream would wait for other servers
		// The servers tell each other the address to advertise: at this one no server listens, so that they use the links
		// only.
		o.Cluster = server.ClusterOpts{Name: "lazuli", Host: "127.0.0.1", Port: portOf(n.route), Advertise: "127.0.0.1:1"}
		o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
	}
	s, err := server.NewServer(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	n.server = s
	c.mu.Unlock()
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		c.t.Fatalf("server %d does not listen", i)
	}
}

func portOf(address string) int {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err)
	}
	return a.Port
}

// WaitReady waits until a leader knows all servers.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		for _, n := range c.nodes {
			if s := n.server; s != nil && len(c.nodes) == 1 {
				return
			} else if s != nil && s.JetStreamIsLeader() && s.JetStreamIsCurrent() &&
				len(s.JetStreamClusterPeers()) == len(c.nodes) {
				return
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the cluster has no leader")
		}
	}
}

// Stop stops a server. Its files stay.
func (c *Cluster) Stop(i int) {
	if s := c.nodes[i].server; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.mu.Lock()
		c.nodes[i].server = nil
		c.mu.Unlock()
	}
}

// Running returns a function that returns a server, nil while it is stopped. It may be called by any goroutine.
func (c *Cluster) Running(i int) func() *server.Server {
	return func() *server.Server {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.nodes[i].server
	}
}

// Size returns the number of servers.
func (c *Cluster) Size() int { return len(c.nodes) }

// Leads returns the index of the running server that leads a stream, -1 if none does.
func (c *Cluster) Leads(stream string) int {
	for i, n := range c.nodes {
		if n.server != nil && n.server.JetStreamIsStreamLeader("$G", stream) {
			return i
		}
	}
	return -1
}

// WaitLeads is Leads for a stream that has a leader, or will have one: a busy machine may elect another at any time.
func (c *Cluster) WaitLeads(stream string) (leader int) {
	c.t.Helper()
	check.Eventually(c.t, func() bool { leader = c.Leads(stream); return leader >= 0 }, "stream %s has a leader", stream)
	return leader
}

// WaitCurrent waits until each server has all of a stream. A server that was started again and still catches up does
// not count as one of the majority that elects a leader.
func (c *Cluster) WaitCurrent(stream string) {
	c.t.Helper()
	for i, n := range c.nodes {
		check.Eventually(c.t, func() bool { return n.server.JetStreamIsStreamCurrent("$G", stream) },
			"server %d has all of stream %s", i, stream)
	}
}

// Cut cuts a server off from the others, or connects it again. Its own clients stay connected.
func (c *Cluster) Cut(i int, cut bool) {
	for j, n := range c.nodes {
		if j == i {
			for _, l := range n.links {
				l.cut(cut)
			}
		} else {
			n.links[i].cut(cut)
		}
	}
}

// Conn connects to one single server, as a node connects to its own, and reconnects when it was stopped. The connection
// is closed at the end of the test.
func (c *Cluster) Conn(t testing.TB, i int) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("nats://"+c.nodes[i].client, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.DontRandomize(), nats.IgnoreDiscoveredServers(), nats.Timeout(startTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, "nats://"+n.client)
	}
	return strings.Join(urls, ",")
}

// link forwards the connections of one server to another.
type link struct {
	l  net.Listener
	to string

	mu    sync.Mutex // guards the rest
	isCut bool
	conns map[net.Conn]bool
}

func newLink(t testing.TB, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{l: l, to: to, conns: make(map[net.Conn]bool)}
	go k.serve()
	return k
}

func (k *link) address() string { return k.l.Addr().String() }

func (k *link) serve() {
	for {
		in, err := k.l.Accept()
		if err != nil {
			return
		}
		go k.forward(in)
	}
}

// forward copies in both directions until one side ends or the link is cut.
func (k *link) forward(in net.Conn) {
	defer in.Close()
	if !k.add(in) {
		return
	}
	defer k.remove(in)
	out, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !k.add(out) {
		return
	}
	defer k.remove(out)
	go func() {
		_, _ = io.Copy(out, in)
		out.Close()
	}()
	_, _ = io.Copy(in, out)
}

func (k *link) add(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isCut {
		k.conns[c] = true
	}
	return !k.isCut
}

func (k *link) remove(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

func (k *link) cut(cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = cut
	if cut {
		for c := range k.conns {
			c.Close()
		}
	}
}

func (k *link) close() {
	k.l.Close()
	k.cut(true)
}
