package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestCopies covers what a node reports about a stream with three copies.
func TestCopies(t *testing.T) {
	t.Parallel()
	current := func(name string) *server.PeerInfo { return &server.PeerInfo{Name: name, Current: true} }
	behind := func(name string) *server.PeerInfo { return &server.PeerInfo{Name: name, Lag: 5} }
	offline := func(name string) *server.PeerInfo { return &server.PeerInfo{Name: name, Current: true, Offline: true} }
	pending := func(name string) *server.PeerInfo { return &server.PeerInfo{Name: name, Current: true, Pending: true} }
	for _, tc := range []struct {
		name    string
		cluster server.ClusterInfo
		short   int
		unsafe  bool
		servers int
	}{
		{"whole", server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a"), current("n3.a")}}, 0,
			false, 3},
		{"one is offline", server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a"), offline("n3.a")}},
			1, false, 3},
		{"one is offline, the other lags",
			server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{behind("n2.a"), offline("n3.a")}}, 1, true, 3},
		{"one lags by what is under way",
			server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a"), behind("n3.a")}}, 0, false, 3},
		{"one lags by much",
			server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a"), {Name: "n3.a", Lag: 1000}}}, 1,
			false, 3},
		{"one has stopped answering", server.ClusterInfo{Leader: "n1.a",
			Replicas: []*server.PeerInfo{current("n2.a"), {Name: "n3.a", Lag: 5, Active: time.Minute}}}, 1, false, 3},
		{"two lag by what is under way",
			server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{behind("n2.a"), behind("n3.a")}}, 1, true, 3},
		{"one was removed", server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a")}}, 1, false, 2},
		{"one was removed, its place is not taken yet",
			server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{behind("n2.a"), pending("n3.b")}}, 1, true, 3},
		{"members change", server.ClusterInfo{Leader: "n1.a", Replicas: []*server.PeerInfo{current("n2.a"), current("n3.a")},
			Desired: &server.DesiredClusterInfo{}}, 1, false, 3},
		{"no leader", server.ClusterInfo{Replicas: []*server.PeerInfo{current("n1.a"), current("n2.a"), current("n3.a")}}, 1,
			true, 3},
		{"another leads", server.ClusterInfo{Leader: "n2.a", Replicas: []*server.PeerInfo{offline("n3.a")}}, 0, false, 0},
	} {
		var c Copies
		c.add("n1.a", &server.StreamDetail{Name: "s", Cluster: &tc.cluster, Config: &server.StreamConfig{Replicas: 3}})
		if c.Short != tc.short || (c.Unsafe == "s") != tc.unsafe || len(c.Servers) != tc.servers {
			t.Errorf("%s: %+v", tc.name, c)
		}
	}
	var c Copies
	c.add("n1.a", &server.StreamDetail{Name: "s", Config: &server.StreamConfig{Replicas: 3}, Cluster: &server.ClusterInfo{
		Leader: "n1.a", Replicas: []*server.PeerInfo{offline("n2.a"), {Name: "n3.b", Lag: 1000, Active: time.Second}}}})
	want := []string{"s (n2 is not connected, n3 lacks 1000 entries and answered 1s ago)"}
	if !slices.Equal(c.Examples, want) {
		t.Errorf("examples %q, want %q", c.Examples, want)
	}
	all := Copies{Short: 4, Examples: []string{"a", "b", "c", "d"}, Servers: []string{"n1.a"}}
	all.merge(Copies{Short: 2, Examples: []string{"e", "f"}, Unsafe: "f", Servers: []string{"n1.a", "n2.a"}})
	if all.Short != 6 || !slices.Equal(all.Examples, []string{"a", "b", "c", "d", "e"}) || all.Unsafe != "f" ||
		len(all.Servers) != 2 {
		t.Errorf("merged: %+v", all)
	}
}
