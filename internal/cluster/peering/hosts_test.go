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
		"all shards": {func(c *Config) { c.Copies = 0 }, "start the node with --cluster-copies 3"},
		"another list": {func(c *Config) {
			c.Peers = append(c.Peers, Peer{Name: "n6", Address: "127.0.0.1:6206"})
		}, "it cannot get further nodes"},
		"zones": {func(c *Config) {
			for i := range c.Peers {
				c.Peers[i].Zone = []string{"a", "b", "c"}[i%3]
			}
		}, "it cannot get further nodes"},
	} {
		other := open(t, "n2", func(c *Config) { spread(c); try.change(c) })
		if err := other.settle(id.Cluster, Joining); !errors.Is(err, ErrHosts) || !strings.Contains(err.Error(), try.want) {
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
	for name, change := range map[string]func(*Config){
		"a further node": func(c *Config) { c.Peers = append(c.Peers, Peer{Name: "n6", Address: "127.0.0.1:6206"}) },
		"another node":   func(c *Config) { c.Peers[4].Name = "n6" },
		"all shards":     func(c *Config) { c.Copies = 0 },
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
