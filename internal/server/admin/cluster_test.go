package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// fakeCluster counts the changes.
type fakeCluster struct{ changes int }

func (*fakeCluster) ClusterStatus(context.Context) (*cluster.Status, error) {
	return &cluster.Status{Cluster: "c"}, nil
}

func (f *fakeCluster) RemoveNode(_ context.Context, name string) error {
	f.changes++
	return map[string]error{"connected": cluster.ErrNodeConnected, "unknown": cluster.ErrUnknownNode,
		"alone": fmt.Errorf("tables: %w", replog.ErrUnavailable)}[name]
}

func (f *fakeCluster) LoseNode(_ context.Context, name string, answering bool) error {
	f.changes++
	if name == "connected" && !answering {
		return cluster.ErrNodeConnected
	}
	return map[string]error{"short": cluster.ErrCopies, "alone": cluster.ErrNotLost}[name]
}

func (f *fakeCluster) SnapshotLogs(context.Context) (map[string]server.LogReport, error) {
	f.changes++
	return map[string]server.LogReport{}, nil
}

func (f *fakeCluster) UpgradeCluster(_ context.Context, finish bool) (*cluster.Upgrade, error) {
	if finish {
		f.changes++
		return nil, cluster.ErrNotUpgraded
	}
	return &cluster.Upgrade{}, nil
}

func (f *fakeCluster) MoveShard(_ context.Context, _ int, _, to string) (*peering.Move, error) {
	f.changes++
	return &peering.Move{}, map[string]error{"nowhere": shardmap.ErrHosts, "second": cluster.ErrMoving}[to]
}

func (f *fakeCluster) CancelMove(context.Context) (*peering.Move, error) {
	f.changes++
	return nil, cluster.ErrNoMove
}

func (f *fakeCluster) SetAutomatic(context.Context, bool) error {
	f.changes++
	return nil
}

func (*fakeCluster) Layout() (peering.Layout, error) { return peering.Layout{}, nil }

// Other machines may see the state of a cluster, and not change it.
func TestClusterIsChangedOnlyFromItsOwnMachine(t *testing.T) {
	t.Parallel()
	cluster := &fakeCluster{}
	h := NewHandler(Options{Cluster: func() Cluster { return cluster }})
	for _, tc := range []struct {
		method, path, from string
		status             int
	}{
		{"GET", "/admin/cluster", "10.0.0.9:4000", 200},
		{"DELETE", "/admin/cluster/nodes/n3", "10.0.0.9:4000", 403},
		{"DELETE", "/admin/cluster/nodes/n3", "[2001:db8::1]:4000", 403},
		{"DELETE", "/admin/cluster/nodes/n3", "", 403},
		{"POST", "/admin/cluster/snapshot", "10.0.0.9:4000", 403},
		{"GET", "/admin/cluster/upgrade", "10.0.0.9:4000", 200},
		{"POST", "/admin/cluster/upgrade/finish", "10.0.0.9:4000", 403},
		{"POST", "/admin/cluster/upgrade/finish", "127.0.0.1:4000", 409},
		{"DELETE", "/admin/cluster/nodes/n3", "127.0.0.1:4000", 204},
		{"POST", "/admin/cluster/snapshot", "[::1]:4000", 200},
		{"DELETE", "/admin/cluster/nodes/connected", "127.0.0.1:4000", 409},
		{"DELETE", "/admin/cluster/nodes/unknown", "127.0.0.1:4000", 404},
		{"DELETE", "/admin/cluster/nodes/alone", "127.0.0.1:4000", 503},
		{"DELETE", "/admin/cluster/nodes/n3/lost", "10.0.0.9:4000", 403},
		{"DELETE", "/admin/cluster/nodes/n3/lost", "127.0.0.1:4000", 204},
		{"DELETE", "/admin/cluster/nodes/connected/lost", "127.0.0.1:4000", 409},
		{"DELETE", "/admin/cluster/nodes/connected/lost?answering=true", "127.0.0.1:4000", 204},
		{"DELETE", "/admin/cluster/nodes/short/lost", "127.0.0.1:4000", 503},
		{"DELETE", "/admin/cluster/nodes/alone/lost", "127.0.0.1:4000", 409},
		{"GET", "/admin/cluster/move", "10.0.0.9:4000", 200},
		{"POST", "/admin/cluster/move", "10.0.0.9:4000", 403},
		{"DELETE", "/admin/cluster/move", "10.0.0.9:4000", 403},
		{"POST", "/admin/cluster/move", "127.0.0.1:4000", 400}, // without a body
		{"DELETE", "/admin/cluster/move", "127.0.0.1:4000", 409},
		{"PUT", "/admin/cluster/automatic", "10.0.0.9:4000", 403},
		{"DELETE", "/admin/cluster/automatic", "127.0.0.1:4000", 204},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Host, r.RemoteAddr = "127.0.0.1", tc.from
		w := httptest.NewRecorder()
		before := cluster.changes
		h.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%s %s from %q: %d, want %d: %s", tc.method, tc.path, tc.from, w.Code, tc.status, w.Body)
		}
		if w.Code == http.StatusForbidden &&
			(cluster.changes != before || !strings.Contains(w.Body.String(), "server's own machine")) {
			t.Errorf("%s %s from %q: %s, %d changes", tc.method, tc.path, tc.from, w.Body, cluster.changes-before)
		}
	}
}
