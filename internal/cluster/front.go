package cluster

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// Front is a process without data that connects to the nodes of a cluster, see [peering.Config.Front]. It has an
// embedded server without JetStream, which no Raft group and no majority counts. It accepts no connections: nodes of a
// release that does not know front-ends would count it as one of them if they could connect to it.
type Front struct {
	config   peering.Config
	site     *peering.Site
	server   *server.Server
	options  *server.Options // of server
	conn     *nats.Conn
	password string // of this process's own clients
}

// frontStartTimeout bounds the start of the embedded server, which reads nothing and waits for no other.
const frontStartTimeout = time.Minute

// StartFront returns when the front-end knows its cluster and its server connects to the nodes. waiting, which may be
// nil, is called with the reason while no node says what the cluster is; ctx bounds that wait.
func StartFront(ctx context.Context, c peering.Config, waiting func(reason string)) (_ *Front, err error) {
	if waiting == nil {
		waiting = func(string) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	f := &Front{config: c, password: rand.Text()}
	if f.site, err = peering.Open(c); err != nil {
		return nil, err
	}
	if err := f.site.Discover(ctx, waiting); err != nil {
		return nil, fmt.Errorf("waiting for the cluster: %w", err)
	}
	// Both addresses are of this machine alone, and their doors refuse everyone but this process: NATS has no server of a
	// cluster without them. Messages must have the size that the nodes allow, or a part of a body could not pass.
	user, password := f.site.Credentials()
	f.options = &server.Options{ServerName: f.site.ServerName(), Host: "127.0.0.1",
		Port: server.RANDOM_PORT, MaxPayload: natsserver.NodeMaxPayload, WriteDeadline: time.Minute, NoSigs: true,
		Routes: f.site.Routes(), CustomClientAuthentication: f, CustomRouterAuthentication: closedDoor{},
		Cluster: server.ClusterOpts{Name: f.site.ClusterName(), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			Username: user, Password: password, AuthTimeout: 30, TLSTimeout: 30, TLSConfig: f.site.TLS(),
			PingInterval: routePing, MaxPingsOut: routePingOut, NoAdvertise: true,
			Compression: server.CompressionOpts{Mode: server.CompressionOff}}}
	f.server, err = server.NewServer(f.options)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	f.server.SetLoggerV2(&nodeLogger{Logger: natsserver.Logger{Out: c.Log}}, false, false, false)
	// It connects to the nodes by itself, now and whenever a connection is lost.
	go f.server.Start()
	if !f.server.ReadyForConnections(frontStartTimeout) {
		f.Close()
		return nil, errors.New("cluster: the embedded NATS server did not become ready")
	}
	if f.conn, err = f.connect("lazuli"); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Check implements server.Authentication: only this process is a client.
func (f *Front) Check(c server.ClientAuthentication) bool {
	if !hmac.Equal([]byte(c.GetOpts().Password), []byte(f.password)) {
		return false
	}
	c.RegisterUser(&server.User{Account: f.server.GlobalAccount()})
	return true
}

// closedDoor refuses all connections of other servers.
type closedDoor struct{}

// Check implements server.Authentication.
func (closedDoor) Check(server.ClientAuthentication) bool { return false }

// ForwardConn opens a connection for requests that are passed on, which the caller closes.
func (f *Front) ForwardConn() (*nats.Conn, error) { return f.connect("lazuli forward") }

func (f *Front) connect(name string) (*nats.Conn, error) {
	conn, err := nats.Connect("", nats.InProcessServer(f.server), nats.UserInfo(ownUser, f.password), nats.Name(name),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.Timeout(frontStartTimeout), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			f.config.Log.Warn("NATS reported an error", "err", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("cluster: connecting in process: %w", err)
	}
	return conn, nil
}

// Close stops the embedded server.
func (f *Front) Close() {
	if f.conn != nil {
		f.conn.Close()
	}
	f.server.Shutdown()
	f.server.WaitForShutdown()
}

// Nodes returns the names of all nodes with data.
func (f *Front) Nodes() (names []string) {
	for _, p := range f.site.Peers() {
		names = append(names, p.Name)
	}
	return names
}

// followEvery is the interval at which a front-end asks who the nodes are.
const followEvery = 10 * time.Second

// Follow asks the nodes who the nodes are, until ctx ends: they join and leave where each has a part of the shards. It
// calls changed after a change of [Front.Nodes].
func (f *Front) Follow(ctx context.Context, changed func()) {
	for {
		for _, name := range f.Connected() {
			r, err := ask[peering.Roster](ctx, f.conn, name, aboutMembers, nil)
			if err != nil || r.Layout == nil {
				continue
			}
			newer, err := f.site.Take(*r.Layout)
			if err == nil && newer {
				f.options = natsserver.SetRoutes(f.server, f.options, f.site.Routes())
				changed()
			}
			if err != nil {
				f.config.Log.Warn("cannot take who the nodes of the cluster are", "err", err)
			}
			break
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Shards returns the number of shards of the cluster.
func (f *Front) Shards() int { return peering.Shards(f.site.Identity().Cluster) }

// Connected returns the names of the nodes to which the front-end has connections.
func (f *Front) Connected() []string {
	return nodesOf(serversOf(f.server, func(name string) bool { return f.site.HasPeer(name) }))
}

// Missing says why nodes are not connected, "" if all are.
func (f *Front) Missing(ctx context.Context) string { return missing(ctx, f.site, f.Connected()) }

// FrontReport holds what a front-end says about itself.
type FrontReport struct {
	// NotReady is why it answers requests 503, "" if it does not.
	NotReady string `json:"not_ready,omitempty"`
	// Serving are the nodes to which it passes requests.
	Serving []string `json:"serving"`
}

// FrontStatus is a front-end in a [Status].
type FrontStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"` // from which it is connected
	// Report holds what it said; nil if it did not answer, and Problem says why.
	Report  *FrontReport `json:"report,omitempty"`
	Problem string       `json:"problem,omitempty"`
}

// Answer makes the front-end answer the nodes, which show it in their status.
func (f *Front) Answer(report func() FrontReport) error {
	_, err := f.conn.Subscribe(subject(aboutReport, f.config.Node), func(m *nats.Msg) {
		natsserver.AnswerJSON(m, report())
	})
	return err
}

// statusTimeout bounds the question for the status of the cluster: the asked node asks all others, and may connect to
// those that are missing.
const statusTimeout = 10 * time.Second

// Status returns the state of the cluster as the first node sees it that answers. Without one it has only the nodes,
// and why they are missing.
func (f *Front) Status(ctx context.Context) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	connected := f.Connected()
	for _, name := range connected {
		s, err := natsserver.AskJSON[Status](ctx, f.conn, subject(aboutStatus, name), nil)
		if err == nil {
			return &s, nil
		}
	}
	out := &Status{Cluster: f.site.Identity().Cluster, Node: f.config.Node, Unknown: "no node has answered"}
	reasons := f.site.CheckPeers(ctx)
	for _, p := range f.site.Peers() {
		out.Nodes = append(out.Nodes, NodeStatus{Name: p.Name, Address: p.Address,
			Problem: cmp.Or(reasons[p.Name], "not connected")})
	}
	return out, nil
}

// fronts asks the front-ends that are connected.
func (n *Node) fronts(ctx context.Context) []FrontStatus {
	e := n.server.Running()
	if e == nil {
		return nil
	}
	info, err := e.Routez(nil)
	if err != nil {
		return nil
	}
	var list []FrontStatus
	var names []string // of the servers; there are several connections to one
	for _, r := range info.Routes {
		name := nodeOf(r.RemoteName)
		if name == "" || n.site.HasPeer(name) || slices.Contains(names, r.RemoteName) {
			continue
		}
		names, list = append(names, r.RemoteName), append(list, FrontStatus{Name: name, Address: r.IP})
	}
	slices.SortFunc(list, func(a, b FrontStatus) int { return cmp.Compare(a.Name, b.Name) })
	var wait sync.WaitGroup
	for i := range list {
		wait.Go(func() {
			r, err := ask[FrontReport](ctx, n.server.Conn(), list[i].Name, aboutReport, nil)
			if err != nil {
				list[i].Problem = err.Error()
				return
			}
			list[i].Report = &r
		})
	}
	wait.Wait()
	return list
}
