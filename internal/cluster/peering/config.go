package peering

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// The number of nodes that a cluster may have. With two nodes, the loss of one would be the loss of the majority.
const (
	MinPeers = 3
	MaxPeers = 7
	// maxSpread is the largest number when no node has all shards.
	maxSpread = shardmap.MaxNodes
)

// Peer is a node of the cluster and the address at which the other nodes reach it.
type Peer struct {
	Name, Address string
	// Zone names the rack or building with which this node fails; it is "" for all nodes or for none.
	Zone string
}

// Config describes a node and its peers.
type Config struct {
	// Node is the name of this node: lower-case letters, digits and hyphens, at most 32.
	Node string
	// Front makes the process a front-end: it has no data, is not among Peers, and connects to them. Listen and Dir must
	// be empty.
	Front bool
	// Listen is the address for the connections of the other nodes, host:port.
	Listen string
	// Peers are all nodes of the cluster, with this one unless it is a front-end: [MinPeers] to [MaxPeers].
	Peers []Peer
	// Shards is the number of shards of the node's data folder; 0 is one. All nodes of a cluster have the same. A
	// front-end has none, and takes those of the cluster.
	Shards int
	// Fence identifies what all nodes ask before they acknowledge a write; "" if they ask nothing. Nodes that differ in it
	// refuse each other, so that those with a majority have the same. A front-end has none.
	Fence string
	// Copies is the number of nodes that have each shard, [shardmap.Copies]; 0 is all nodes. All nodes of a cluster have
	// the same. A front-end has none.
	Copies int
	// SecretFile is a file with at least [MinSecret] characters that all nodes share. It authenticates the nodes, and
	// encrypts their connections unless CAFile is set.
	SecretFile string
	// CAFile, CertFile and KeyFile are PEM files for mutual TLS between the nodes: the authority, and this node's
	// certificate with its key. All or none are set.
	CAFile, CertFile, KeyFile string
	// Dir is the folder that holds the identity. It must exist.
	Dir string
	// Log receives what happens with other nodes. Nil means slog.Default().
	Log *slog.Logger
}

var validName = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// FrontName returns the name of a front-end, of which the last 32 characters count: those by which the pods of a
// Deployment differ, whose names are longer.
func FrontName(name string) string {
	const longest = 32
	return strings.TrimLeft(name[max(0, len(name)-longest):], "-")
}

// ParsePeers parses a list of the form name=host:port,name=host:port, in which "@zone" may follow each address.
func ParsePeers(text string) ([]Peer, error) {
	var peers []Peer
	for part := range strings.SplitSeq(text, ",") {
		name, address, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form name=host:port", part)
		}
		address, zone, zoned := strings.Cut(address, "@")
		if zoned && !validName().MatchString(zone) {
			return nil, fmt.Errorf("the zone %q of %s must have 1 to 32 lower-case letters, digits and hyphens", zone, name)
		}
		peers = append(peers, Peer{Name: name, Address: address, Zone: zone})
	}
	return peers, nil
}

// FormatPeers is the inverse of [ParsePeers].
func FormatPeers(peers []Peer) string {
	parts := make([]string, len(peers))
	for i, p := range peers {
		parts[i] = p.Name + "=" + p.Address
		if p.Zone != "" {
			parts[i] += "@" + p.Zone
		}
	}
	return strings.Join(parts, ",")
}

// Validate returns an error that describes the first mistake. It reads no files.
func (c *Config) Validate() error {
	if err := CheckName(c.Node); err != nil {
		return err
	}
	if c.Front {
		if c.Listen != "" || c.Dir != "" {
			return errors.New("a front-end connects to the nodes: it has no address for them, and no folder")
		}
	} else if err := checkAddress(c.Listen, true); err != nil {
		return fmt.Errorf("the address to listen on: %w", err)
	}
	if err := c.validatePeers(); err != nil {
		return err
	}
	// The number of shards may be that of a folder that is not open yet: then the table is made later.
	if c.Copies != shardmap.Copies || c.Shards > 0 {
		if _, err := c.hosts(); err != nil {
			return err
		}
	}
	if some := c.CAFile != "" || c.CertFile != "" || c.KeyFile != ""; some &&
		(c.CAFile == "" || c.CertFile == "" || c.KeyFile == "") {
		return errors.New("authority, certificate and key of the node go together")
	}
	addresses := c.Peers
	if !c.Front {
		addresses = append([]Peer{{Name: c.Node, Address: c.Listen}}, c.Peers...)
	}
	for _, p := range addresses {
		if host := exposure.Host(p.Address); !exposure.Local(host) && c.SecretFile == "" && c.CAFile == "" {
			return exposure.Refuse("the node "+p.Name+" is open", host, "connections between machines must be authenticated "+
				"and encrypted; give all nodes the same secret file, or certificates of one authority")
		}
	}
	return nil
}

func (c *Config) validatePeers() error {
	most := MaxPeers
	if c.Front || c.Copies > 0 {
		most = maxSpread
	}
	if n := len(c.Peers); n < MinPeers || n > most {
		with := ", with this one"
		if c.Front {
			with = ""
		}
		return fmt.Errorf("%d peers are given: a cluster has %d to %d nodes%s", n, MinPeers, most, with)
	}
	names, addresses := map[string]bool{}, map[string]string{}
	for _, p := range c.Peers {
		if !validName().MatchString(p.Name) {
			return fmt.Errorf("the name %q of a peer must have 1 to 32 lower-case letters, digits and hyphens", p.Name)
		}
		if err := checkAddress(p.Address, false); err != nil {
			return fmt.Errorf("the address of %s: %w", p.Name, err)
		}
		if names[p.Name] {
			return fmt.Errorf("%s is given twice among the peers", p.Name)
		}
		if other, taken := addresses[p.Address]; taken {
			return fmt.Errorf("%s and %s have the same address %s", other, p.Name, p.Address)
		}
		names[p.Name], addresses[p.Address] = true, p.Name
	}
	switch {
	case c.Front && names[c.Node]:
		return fmt.Errorf("%s is the name of a node with data: a front-end needs one of its own", c.Node)
	case !c.Front && !names[c.Node]:
		return fmt.Errorf("this node, %s, is not among the peers", c.Node)
	}
	return nil
}

// checkAddress checks host:port. listening allows an empty host.
func checkAddress(address string, listening bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" && !listening {
		return fmt.Errorf("%q is not of the form host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q: the port must be a number from 1 to 65535", address)
	}
	return nil
}

// founder returns the name of the node that founds the cluster.
func (c *Config) founder() string {
	return slices.MinFunc(c.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) }).Name
}

// address returns the address of a peer, "" for an unknown name.
func (c *Config) address(name string) string {
	for _, p := range c.Peers {
		if p.Name == name {
			return p.Address
		}
	}
	return ""
}
