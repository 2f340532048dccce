package dashboard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// clusterNode is a server that says what a node of a cluster would say.
type clusterNode struct {
	*server.Server
	status *cluster.Status
	err    error
}

func (n clusterNode) ClusterStatus(context.Context) (*cluster.Status, error) { return n.status, n.err }

// The page shows where each shard is, and what is short of a copy and why.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	node := clusterNode{status: spreadStatus(t)}
	s := open(t, func(o *dashboard.Options) {
		open := o.Backend
		o.Cluster = true
		o.Backend = func() dashboard.Backend { return clusterNode{open().(*server.Server), node.status, node.err} }
	})
	s.shows("/ui/", `<a href="/ui/cluster">Cluster</a>`)
	s.shows("/ui/cluster", "Everything has all of its copies.", "lazuli-shards2-hosts", `<td data-label="Zone">east</td>`,
		`<td data-label="Nodes">n1, n2, n3</td><td data-label="Tables at">n1</td><td data-label="Queues at">n2</td>`,
		`<td data-label="Data" class="number">6.0 MiB</td>`, "passes requests to n1, n2")
	s.hides("/ui/cluster", "Do not stop", "unreachable")

	log := node.status.Nodes[1].Report.Details["blobs"].(server.LogReport)
	missing := int64(5 << 20)
	log.Missing, log.Lag = &missing, 7
	node.status.Nodes[1].Report.Details["blobs"] = log
	node.status.Nodes[2].Report, node.status.Nodes[2].Problem = nil, "<no route>"
	node.status.Copies = cluster.Copies{Short: 3, Examples: []string{"LOG_blobs"}}
	s.shows("/ui/cluster", "not complete", "such as LOG_blobs", "Do not stop or remove another node now.", "entries: n2 7",
		"content: n2 5.0 MiB", "no answer: n3", "unreachable", "&lt;no route&gt;")
	s.hides("/ui/cluster", "Everything has")

	for err, status := range map[error]int{cluster.ErrNotClustered: http.StatusNotFound,
		server.ErrFront: http.StatusNotImplemented, context.DeadlineExceeded: http.StatusServiceUnavailable} {
		node.err = err
		if got, _, _ := s.do(http.MethodGet, "/ui/cluster", nil, nil); got != status {
			t.Errorf("%v: %d, want %d", err, got, status)
		}
	}
}

// A single server has no such page.
func TestClusterPageOfOne(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.hides("/ui/", "/ui/cluster")
	if status, body, _ := s.do(http.MethodGet, "/ui/cluster", nil, nil); status != http.StatusNotFound ||
		!strings.Contains(body, "docs/cluster.md") {
		t.Errorf("%d %s", status, body)
	}
}

// spreadStatus is the status of three nodes in three zones that all have both shards.
func spreadStatus(t *testing.T) *cluster.Status {
	t.Helper()
	places := []shardmap.Place{{Node: "n1", Zone: "east"}, {Node: "n2", Zone: "west"}, {Node: "n3", Zone: "north"}}
	status := &cluster.Status{Cluster: "lazuli-shards2-hosts", Node: "n1", Leader: "n2", Format: 5,
		Hosts: check.Must(shardmap.NewHosts(places, 2))(t),
		Fronts: []cluster.FrontStatus{{Name: "f1", Address: "10.0.0.9:6222",
			Report: &cluster.FrontReport{Serving: []string{"n1", "n2"}}}}}
	for _, p := range places {
		details := map[string]any{}
		for _, kind := range []string{"tables", "queues", "blobs"} {
			for _, suffix := range []string{"", "-s01"} {
				home := map[string]string{"tables": "n1", "queues": "n2", "blobs": "n3"}[kind]
				details[kind+suffix] = server.LogReport{Applied: 10, Home: home, Data: 2 << 20, Missing: new(int64)}
			}
		}
		status.Nodes = append(status.Nodes, cluster.NodeStatus{Name: p.Node, Address: p.Node + ":6222",
			Report: &cluster.NodeReport{Node: p.Node, Details: details}})
	}
	return status
}
