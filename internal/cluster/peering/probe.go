package peering

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// probeTimeout bounds the question to one peer, probePause is the time between rounds of questions.
	probeTimeout = 3 * time.Second
	probePause   = 500 * time.Millisecond
	// maxInfo bounds the line with which a server introduces itself.
	maxInfo = 32 << 10
)

// Probe holds what a peer says at its address.
type Probe struct {
	Peer    Peer
	Cluster string // ID of its cluster
	Node    string // its name
	Err     error  // why it did not answer
}

var errNoServer = errors.New("the server at this address is not a Lazuli node")

// probeAll asks all other peers at the same time.
func (s *Site) probeAll(ctx context.Context) []Probe {
	var list []Probe
	var wait sync.WaitGroup
	for _, p := range s.Peers() {
		if p.Name == s.config.Node {
			continue
		}
		list = append(list, Probe{Peer: p})
	}
	for i := range list {
		wait.Go(func() { list[i] = s.probe(ctx, list[i].Peer) })
	}
	wait.Wait()
	return list
}

// probe reads the line with which a NATS server greets another one, after the TLS handshake and before the password.
func (s *Site) probe(ctx context.Context, p Peer) Probe {
	out := Probe{Peer: p}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.Address)
	if err != nil {
		out.Err = err
		return out
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	if config := s.TLS(); config != nil {
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(p.Address)
		}
		c = tls.Client(c, config)
	}
	// The first read does the TLS handshake, which fails for a node with another secret; explained says so.
	line, err := bufio.NewReaderSize(c, maxInfo).ReadSlice('\n')
	if err != nil {
		out.Err = explained(err)
		return out
	}
	var info struct {
		Name    string `json:"server_name"`
		Cluster string `json:"cluster"`
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok || json.Unmarshal(text, &info) != nil {
		out.Err = errNoServer
		return out
	}
	// A NATS server of another purpose may use the port.
	if out.Cluster, ok = strings.CutPrefix(info.Cluster, clusterPrefix); !ok {
		out.Cluster, out.Err = "", errNoServer
		return out
	}
	out.Node, _, _ = strings.Cut(info.Name, ".")
	return out
}

// distrust is the reason for a node that waits because of its secret or its certificate: waiting does not help.
const distrust = "the nodes do not trust each other"

// explained adds what to check to an error of TLS. Its types do not distinguish them from other errors of a connection.
func explained(err error) error {
	if text := err.Error(); strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") {
		return fmt.Errorf(distrust+": check that they have the same secret, or certificates of one authority: %w", err)
	}
	return err
}

// CheckPeers asks the peers for their names, and returns what is wrong with their addresses: by name, the reason why a
// node is not usable.
func (s *Site) CheckPeers(ctx context.Context) map[string]string {
	own := s.Identity().Cluster
	wrong := map[string]string{}
	for _, p := range s.probeAll(ctx) {
		switch {
		case p.Err != nil:
			wrong[p.Peer.Name] = p.Err.Error()
		case p.Node != p.Peer.Name:
			wrong[p.Peer.Name] = "its address " + p.Peer.Address + " is that of node " + p.Node + ": correct the list of peers"
		case p.Cluster != own:
			wrong[p.Peer.Name] = "it belongs to cluster " + p.Cluster + ", and this node to cluster " + own
		}
	}
	return wrong
}
