package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// clusterPatience is the time that nodes have for their answers: a page must not hang while one of them is silent.
const clusterPatience = 8 * time.Second

// clusterPage shows the cluster, as the node that answers sees it.
type clusterPage struct {
	*cluster.Status
	Rows   []server.NodeRow
	Shards []server.ShardStatus // nil where there is one
	// Lacks says what is short of a copy, and why; "" if everything has all of its copies.
	Lacks string
	// Imbalance says by how much the nodes differ in what they have; "" if they have equal shares.
	Imbalance string
	// Zones says that nodes have zones.
	Zones bool
}

func (clusterPage) Template() string { return "cluster" }

// cluster shows the nodes, the shards and the front-ends of the cluster.
func (d *dashboard) cluster(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), clusterPatience)
	defer cancel()
	status, err := d.options.Backend().ClusterStatus(ctx)
	switch {
	case errors.Is(err, cluster.ErrNotClustered):
		return frame.NewProblem(http.StatusNotFound, "This server is not a node of a cluster",
			"docs/cluster.md says how to start one.")
	case errors.Is(err, server.ErrFront):
		return frame.NewProblem(http.StatusNotImplemented, "A front-end does not know the state of the cluster",
			"Use the dashboard of a node with data.")
	case err != nil:
		return frame.NewProblem(http.StatusServiceUnavailable, "The state of the cluster is not known", err.Error())
	}
	data := clusterPage{Status: status, Rows: server.NodeRows(status), Shards: server.ShardStatuses(status),
		Lacks: server.Incomplete(status), Imbalance: server.Imbalance(status)}
	for _, n := range data.Rows {
		data.Zones = data.Zones || n.Zone != ""
	}
	return d.Show(w, r, "Cluster", nil, data)
}
