package peering

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// spread makes a configuration one in which each of the nodes n1 to n5 has a part of four shards.
func spread(c *Config) {
	c.Peers = append(peers(), Peer{Name: "n4", Address: "127.0.0.1:6204"}, Peer{Name: "n5", Address: "127.0.0.1:6205"})
	c.Shards, c.Copies = 4, shardmap.Copies
}

// A node takes the ID of a cluster if its own list of peers gives the table of that cluster, and keeps the table.
func TestHostsOfACluster(t *testing.T) {
	t.Parallel()
	founder := open(t, "n1", spread)
	check.OK(t, founder.Discover(t.Context(), func(string) {}))
	id := founder.Identity()
	if id.Hosts == nil || Shards(id.Cluster) != 4 || !strings.HasSuffix(id.Cluster, "-shards4-hosts"+id.Hosts.Sum()) {
		t.Fatalf("the cluster is %s, with the table %+v", id.Cluster, id.Hosts)
	}
	var tags []string
	for _, n := range id.Hosts.Of("n1") {
		tags = append(tags, founder.Placement(n)...)
	}
	if len(tags) == 0 || !slices.Equal(founder.Tags(), tags) {
		t.Errorf("the server of n1 has the tags %v, and its streams need %v", founder.Tags(), tags)
	}
	second := open(t, "n2", spread)
	check.OK(t, second.settle(id.Cluster, Joining))
	if second.Hosts() == nil || second.Hosts().Sum() != id.Hosts.Sum() {
		t.Errorf("n2 has the table %+v", second.Hosts())
	}
	for name, try := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"all shards":         {func(c *Config) { c.Copies = 0 }, "start the node with --cluster-copies 3"},
		"a number of shards": {func(c *Config) { c.Shards = 5 }, "start the node with --shards 4"},
	} {
		other := open(t, "n2", func(c *Config) { spread(c); try.change(c) })
		if err := other.settle(id.Cluster, Joining); err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: error %v, want %q", name, err, try.want)
		}
	}
	all := open(t, "n2", func(c *Config) { spread(c); c.Peers = c.Peers[:3] })
	if err := all.settle("abcdefghijkl-shards4", Joining); !errors.Is(err, ErrHosts) ||
		!strings.Contains(err.Error(), "without --cluster-copies") {
		t.Errorf("a cluster whose nodes have all shards: error %v", err)
	}
	for cluster, shards := range map[string]int{"abcdefghijkl": 1, "abcdefghijkl-shards16": 16,
		"abcdefghijkl-shards16-hosts49d8091f55106f33": 16} {
		if got := Shards(cluster); got != shards {
			t.Errorf("%s has %d shards", cluster, got)
		}
	}
}

// The table is in the folder: what a node is started with later must fit it.
func TestHostsOfAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, "n1", func(c *Config) { spread(c); c.Dir = dir })
	check.OK(t, first.Discover(t.Context(), func(string) {}))
	again := func(change func(*Config)) error {
		c := first.config
		c.Peers = slices.Clone(c.Peers)
		change(&c)
		_, err := Open(c)
		return err
	}
	// Addresses may change, and zones say only where a new cluster has its shards.
	check.OK(t, again(func(c *Config) {
		slices.Reverse(c.Peers)
		c.Peers[0].Address = "127.0.0.1:6299"
		for i := range c.Peers {
			c.Peers[i].Zone = []string{"a", "b", "c"}[i%3]
		}
	}))
	// A name that the cluster does not have says nothing.
	check.OK(t, again(func(c *Config) { c.Peers = append(c.Peers, Peer{Name: "n6", Address: "127.0.0.1:6206"}) }))
	for name, change := range map[string]func(*Config){
		"a node less": func(c *Config) { c.Peers = c.Peers[:4] },
		"all shards":  func(c *Config) { c.Copies = 0 },
	} {
		if err := again(change); !errors.Is(err, ErrHosts) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// What no node writes: the checksum of the identity is right, and the table is another one.
	id := check.Must(ReadIdentity(dir))(t)
	id.Hosts.Shards[0], id.Hosts.Shards[1] = id.Hosts.Shards[1], id.Hosts.Shards[0]
	check.OK(t, id.write(dir))
	if err := again(func(*Config) {}); !errors.Is(err, ErrHosts) {
		t.Errorf("a folder with another table: error %v", err)
	}
}

// A node with a longer list of peers takes no part before a member has given it the table and a layout that has it.
// From then on the nodes are those of the layout, whatever a node is started with.
func TestFurtherNode(t *testing.T) {
	t.Parallel()
	var config Config
	founder := open(t, "n1", func(c *Config) { spread(c); config = *c })
	check.OK(t, founder.Discover(t.Context(), func(string) {}))
	further := Peer{Name: "n6", Address: "127.0.0.1:6206"}
	n6 := open(t, "n6", func(c *Config) { spread(c); c.Peers = append(c.Peers, further) })
	check.OK(t, n6.settle(founder.Identity().Cluster, Joining))
	if !n6.Outside() || n6.Hosts() != nil || len(n6.Tags()) > 0 || n6.Self() != further {
		t.Errorf("before it is taken in n6 has the table %+v and the tags %v", n6.Hosts(), n6.Tags())
	}
	if err := n6.Enter(founder.Roster()); !errors.Is(err, ErrHosts) {
		t.Errorf("a roster without a layout: %v", err)
	}
	hosts := founder.Hosts()
	for name, l := range map[string]Layout{"no such node": {Version: 1, Hosts: hosts}, "no table": {Version: 1}} {
		r := founder.Roster()
		r.Layout = &l
		if err := n6.Enter(r); err == nil || !n6.Outside() {
			t.Errorf("a roster with %s: %v", name, err)
		}
	}
	l := Layout{Version: 1, Hosts: check.Must(hosts.Added(shardmap.Place{Node: "n6"}))(t),
		Addresses: map[string]string{"n6": "127.0.0.1:6299"}}
	for _, p := range config.Peers {
		l.Addresses[p.Name] = "127.0.0.1:1" // its own list comes first
	}
	check.Must(founder.Take(l))(t)
	r := founder.Roster()
	other := *hosts
	other.Revision = 9
	r.Hosts = &other
	if err := n6.Enter(r); !errors.Is(err, ErrHosts) {
		t.Errorf("a roster with the table of another cluster: %v", err)
	}
	check.OK(t, n6.Enter(founder.Roster()))
	if n6.Outside() || !n6.HasPeer("n1") || len(n6.Tags()) > 0 || n6.Layout().Version != 1 {
		t.Errorf("n6 has the layout %+v", n6.Layout())
	}
	founder = check.Must(Open(config))(t) // with the list of before
	if !founder.HasPeer("n6") || founder.address("n6") != "127.0.0.1:6299" || founder.address("n5") != "127.0.0.1:6205" {
		t.Errorf("the nodes are %+v", founder.Peers())
	}
	short := config
	short.Peers = config.Peers[:3]
	if s := check.Must(Open(short))(t); s.address("n5") != "127.0.0.1:1" {
		t.Errorf("with a short list the nodes are %+v", s.Peers())
	}

	hello := Hello{Node: "n6", Incarnation: n6.Identity().Incarnation, Process: "x", Cluster: founder.Identity().Cluster,
		State: Joining, Format: Supported.Newest, Shards: 4}
	_, password := founder.Credentials()
	check.OK(t, founder.Admit(hello.encode(), password, "127.0.0.1:9"))
	// Without it again: the name counts no longer, and the folder is not accepted.
	check.OK(t, founder.Forget("n6", ""))
	check.Must(founder.Take(Layout{Version: 2, Hosts: check.Must(l.Hosts.Removed("n6"))(t), Addresses: l.Addresses}))(t)
	if founder.HasPeer("n6") || len(founder.Routes()) != 5 {
		t.Errorf("after n6 has left the nodes are %+v", founder.Peers())
	}
	for want, incarnation := range map[string]string{"was removed from the cluster": hello.Incarnation,
		"the cluster has no node n6": "another"} {
		hello.Incarnation = incarnation
		err := founder.Admit(hello.encode(), password, "127.0.0.1:9")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("n6 after it has left: %v, want %q", err, want)
		}
	}
}

func TestHostsMistakes(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"zones alone":     {func(c *Config) { c.Copies = 0; c.Peers[0].Zone = "a" }, "need cluster-copies"},
		"two copies":      {func(c *Config) { c.Copies = 2 }, "and not on 2"},
		"one shard":       {func(c *Config) { c.Shards = 1 }, "2 to 64 shards"},
		"a half of zones": {func(c *Config) { c.Peers[0].Zone = "a" }, "some nodes have a zone"},
		"17 nodes": {func(c *Config) {
			for i := range 12 {
				p := peers()[0]
				p.Name += string(rune('a' + i))
				c.Peers = append(c.Peers, p)
			}
		}, "3 to 16 nodes"},
	} {
		c := Config{Node: "n1", Listen: "127.0.0.1:6201"}
		spread(&c)
		check.OK(t, c.Validate())
		try.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: got %v, want %q", name, err, try.want)
		}
	}
	const text = "n1=127.0.0.1:6201@a,n2=127.0.0.1:6202@b,n3=[::1]:6203@zone-3"
	list := check.Must(ParsePeers(text))(t)
	if FormatPeers(list) != text || list[2] != (Peer{Name: "n3", Address: "[::1]:6203", Zone: "zone-3"}) {
		t.Errorf("%s was read as %+v", text, list)
	}
	for _, text := range []string{"n1=127.0.0.1:6201@", "n1=127.0.0.1:6201@Zone", "n1=127.0.0.1:6201@a@b"} {
		if list, err := ParsePeers(text); err == nil {
			t.Errorf("%s was read as %+v", text, list)
		}
	}
}
