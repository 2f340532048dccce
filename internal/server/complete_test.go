package server_test

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/server"
)

// A cluster is complete when no node lacks anything, and what it lacks is said.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	none, some := int64(0), int64(5<<20)
	logs := func(applied uint64, missing *int64) map[string]any {
		return map[string]any{"tables": server.LogReport{Applied: applied}, "queues": server.LogReport{Applied: 7},
			"blobs": server.LogReport{Applied: 7, Missing: missing}}
	}
	node := func(applied uint64, missing *int64) *cluster.NodeReport {
		return &cluster.NodeReport{Details: logs(applied, missing)}
	}
	for want, change := range map[string]func(*cluster.Status){
		"": func(*cluster.Status) {},
		"n1: not connected": func(s *cluster.Status) {
			s.Nodes[1] = cluster.NodeStatus{Name: "n1", Problem: "not connected"}
		},
		"n1: full":                            func(s *cluster.Status) { s.Nodes[1].Report.NotReady = "full" },
		"n1 lacks 4000 entries of the tables": func(s *cluster.Status) { s.Nodes[1].Report = node(1000, &none) },
		"n1 lacks 5.0 MiB of content":         func(s *cluster.Status) { s.Nodes[1].Report = node(5000, &some) },
		"n1 does not know what content it lacks": func(s *cluster.Status) {
			s.Nodes[1].Report = node(5000, nil)
		},
		"asking n1 for its streams": func(s *cluster.Status) { s.Unknown = "asking n1 for its streams" },
		"2 streams have fewer current copies than they should, such as a": func(s *cluster.Status) {
			s.Copies = cluster.Copies{Short: 2, Examples: []string{"a"}}
		},
	} {
		s := cluster.Status{Nodes: []cluster.NodeStatus{{Name: "n0", Report: node(5000, &none)},
			{Name: "n1", Report: node(4990, &none)}}}
		change(&s)
		if got := server.Incomplete(&s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a rolling update waits for is what the restarted node lacks; the others do not matter.
func TestCompleteIsOfOneNode(t *testing.T) {
	t.Parallel()
	none, some := int64(0), int64(5<<20)
	report := func(missing *int64) *cluster.NodeReport {
		return &cluster.NodeReport{Details: map[string]any{"tables": server.LogReport{Applied: 7},
			"queues": server.LogReport{Applied: 7}, "blobs": server.LogReport{Applied: 7, Missing: missing}}}
	}
	for want, change := range map[string]func(*cluster.Status){
		"":                               func(*cluster.Status) {},
		"n0 lacks 5.0 MiB of content":    func(s *cluster.Status) { s.Nodes[0].Report = report(&some) },
		"n0 lacks entries of streams: a": func(s *cluster.Status) { s.Copies.Behind = []string{"n0", "n1"} },
		"n0 does not know what content it lacks": func(s *cluster.Status) {
			s.Nodes[0].Report = report(nil)
		},
	} {
		s := &cluster.Status{Node: "n0", Nodes: []cluster.NodeStatus{{Name: "n0", Report: report(&none)},
			{Name: "n1", Report: report(&none)}}, Copies: cluster.Copies{Short: 1, Examples: []string{"a"}}}
		change(s)
		if got := server.IncompleteNode(s, "n0"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, s := range map[string]*cluster.Status{
		"another one lacks content": {Nodes: []cluster.NodeStatus{{Name: "n0", Report: report(&none)},
			{Name: "n1", Report: report(&some)}}},
		"another one lacks entries": {Nodes: []cluster.NodeStatus{{Name: "n0", Report: report(&none)}},
			Copies: cluster.Copies{Behind: []string{"n1"}}},
		// It will never say what it has, and this node would never be ready.
		"another one does not run": {Nodes: []cluster.NodeStatus{{Name: "n0", Report: report(nil)}, {Name: "n1"}}},
	} {
		if got := server.IncompleteNode(s, "n0"); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
