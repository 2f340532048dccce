package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Cluster is the cluster that the endpoints below /admin/cluster show and change: a [server.Server].
type Cluster interface {
	ClusterStatus(ctx context.Context) (*cluster.Status, error)
	SnapshotLogs(ctx context.Context) (map[string]server.LogReport, error)
	RemoveNode(ctx context.Context, name string) error
	LoseNode(ctx context.Context, name string, answering bool) error
	UpgradeCluster(ctx context.Context, finish bool) (*cluster.Upgrade, error)
	MoveShard(ctx context.Context, shard int, from, to string) (*peering.Move, error)
	CancelMove(ctx context.Context) (*peering.Move, error)
	SetAutomatic(ctx context.Context, on bool) error
	Layout() (peering.Layout, error)
}

// clusterHandler serves /admin/cluster.
type clusterHandler struct {
	cluster func() Cluster // nil while the services start
}

func (h clusterHandler) routes(e *echo.Echo) {
	e.GET("/admin/cluster", h.open(h.status))
	e.POST("/admin/cluster/snapshot", localOnly(h.open(h.snapshot)))
	e.GET("/admin/cluster/upgrade", h.open(h.upgrade(false)))
	e.POST("/admin/cluster/upgrade/finish", localOnly(h.open(h.upgrade(true))))
	e.DELETE("/admin/cluster/nodes/:name", localOnly(h.open(h.remove)))
	e.DELETE("/admin/cluster/nodes/:name/lost", localOnly(h.open(h.lose)))
	e.GET("/admin/cluster/move", h.open(h.layout))
	e.POST("/admin/cluster/move", localOnly(h.open(h.move)))
	e.DELETE("/admin/cluster/move", localOnly(h.open(h.cancelMove)))
	e.PUT("/admin/cluster/automatic", localOnly(h.open(h.automatic(true))))
	e.DELETE("/admin/cluster/automatic", localOnly(h.open(h.automatic(false))))
}

// localOnly refuses requests from other machines. The admin listener has no authentication, and probes and metrics may
// need it to be open to a network; the removal of a node must not be open to it.
func localOnly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !exposure.Local(exposure.Host(c.Request().RemoteAddr)) {
			return answerState(c, http.StatusForbidden,
				"this is accepted only from the server's own machine: run the command there, with --admin-host 127.0.0.1")
		}
		return next(c)
	}
}

// open calls next once the services are open.
func (h clusterHandler) open(next func(echo.Context, Cluster) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		if cluster := h.cluster(); cluster != nil {
			return next(c, cluster)
		}
		return answerState(c, http.StatusServiceUnavailable,
			"this node waits for a majority of its cluster; /readyz has the reason")
	}
}

// notClustered answers on a single server.
func notClustered(c echo.Context) error {
	return answerState(c, http.StatusNotFound, cluster.ErrNotClustered.Error())
}

// status is GET /admin/cluster.
func (h clusterHandler) status(c echo.Context, cluster Cluster) error {
	status, err := cluster.ClusterStatus(c.Request().Context())
	if err != nil {
		return failCluster(c, err)
	}
	return writeJSON(c, http.StatusOK, status)
}

// snapshot is POST /admin/cluster/snapshot.
func (h clusterHandler) snapshot(c echo.Context, cluster Cluster) error {
	reports, err := cluster.SnapshotLogs(c.Request().Context())
	if err != nil {
		return failCluster(c, err)
	}
	return writeJSON(c, http.StatusOK, reports)
}

// remove is DELETE /admin/cluster/nodes/NAME.
func (h clusterHandler) remove(c echo.Context, cluster Cluster) error {
	if err := cluster.RemoveNode(c.Request().Context(), c.Param("name")); err != nil {
		return failCluster(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// lose is DELETE /admin/cluster/nodes/NAME/lost; with ?answering=true also of a node that answers.
func (h clusterHandler) lose(c echo.Context, cluster Cluster) error {
	if err := cluster.LoseNode(c.Request().Context(), c.Param("name"), c.QueryParam("answering") == "true"); err != nil {
		return failCluster(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// upgrade is GET /admin/cluster/upgrade, and POST /admin/cluster/upgrade/finish.
func (h clusterHandler) upgrade(finish bool) func(echo.Context, Cluster) error {
	return func(c echo.Context, cluster Cluster) error {
		upgrade, err := cluster.UpgradeCluster(c.Request().Context(), finish)
		if err != nil {
			return failCluster(c, err)
		}
		return writeJSON(c, http.StatusOK, upgrade)
	}
}

// layout is GET /admin/cluster/move.
func (h clusterHandler) layout(c echo.Context, cluster Cluster) error {
	layout, err := cluster.Layout()
	if err != nil {
		return failCluster(c, err)
	}
	return writeJSON(c, http.StatusOK, layout)
}

// maxStep bounds the body that names a shard and two nodes, in bytes.
const maxStep = 4 << 10

// move is POST /admin/cluster/move, with a shardmap.Step.
func (h clusterHandler) move(c echo.Context, cluster Cluster) error {
	var r shardmap.Step
	if err := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, maxStep)).Decode(&r); err != nil {
		return answerState(c, http.StatusBadRequest, "the body does not parse: "+err.Error())
	}
	move, err := cluster.MoveShard(c.Request().Context(), r.Shard, r.From, r.To)
	if err != nil {
		return failCluster(c, err)
	}
	return writeJSON(c, http.StatusOK, move)
}

// cancelMove is DELETE /admin/cluster/move.
func (h clusterHandler) cancelMove(c echo.Context, cluster Cluster) error {
	move, err := cluster.CancelMove(c.Request().Context())
	if err != nil {
		return failCluster(c, err)
	}
	return writeJSON(c, http.StatusOK, move)
}

// automatic is PUT and DELETE /admin/cluster/automatic.
func (h clusterHandler) automatic(on bool) func(echo.Context, Cluster) error {
	return func(c echo.Context, cluster Cluster) error {
		if err := cluster.SetAutomatic(c.Request().Context(), on); err != nil {
			return failCluster(c, err)
		}
		return c.NoContent(http.StatusNoContent)
	}
}

func failCluster(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, cluster.ErrUnknownNode), errors.Is(err, cluster.ErrNotClustered):
		status = http.StatusNotFound
	case errors.Is(err, server.ErrFront):
		status = http.StatusNotImplemented
	case errors.Is(err, shardmap.ErrHosts):
		status = http.StatusBadRequest
	case errors.Is(err, cluster.ErrNodeConnected), errors.Is(err, cluster.ErrNotUpgraded),
		errors.Is(err, cluster.ErrNotSpread), errors.Is(err, cluster.ErrMoveFormat), errors.Is(err, cluster.ErrMoving),
		errors.Is(err, cluster.ErrNotLost), errors.Is(err, cluster.ErrNoMove), errors.Is(err, cluster.ErrMovedOn),
		errors.Is(err, cluster.ErrNodeAway):
		status = http.StatusConflict
	case errors.Is(err, natsserver.ErrNoMajority), errors.Is(err, cluster.ErrCopies), errors.Is(err, cluster.ErrNoAnswer),
		errors.Is(err, replog.ErrUnavailable), errors.Is(err, server.ErrNotReady),
		errors.Is(err, server.ErrBusy):
		status = http.StatusServiceUnavailable
	}
	return answerState(c, status, err.Error())
}
