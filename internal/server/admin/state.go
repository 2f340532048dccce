package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// State is the state that the endpoints below /admin change: a [server.Server].
type State interface {
	Reset(ctx context.Context, scope server.Scope) (map[wire.Service]int, error)
	Save(ctx context.Context, name string, replace bool) error
	Restore(ctx context.Context, name string) error
	Snapshots() ([]datadir.Snapshot, error)
	RemoveSnapshot(name string) error
}

// patience is the time that a snapshot waits for requests under way.
const patience = 10 * time.Second

// stateHandler serves /admin: resets, snapshots and the seed. It is off by default: every caller can delete everything.
type stateHandler struct {
	state func() State // nil while the services start
	seed  func(context.Context) error
}

// whenOpen passes requests on once the services are open.
func whenOpen(open func() bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !open() {
				return answerState(c, http.StatusServiceUnavailable, "the services are starting")
			}
			return next(c)
		}
	}
}

func (h stateHandler) routes(e *echo.Echo) {
	g := e.Group("/admin", whenOpen(func() bool { return h.state() != nil }))
	g.POST("/reset", h.reset)
	g.POST("/seed", h.reseed)
	g.GET("/snapshots", h.list)
	g.POST("/snapshots/:name", h.save)
	g.POST("/snapshots/:name/restore", h.restore)
	g.DELETE("/snapshots/:name", h.remove)
}

// refuseState answers if the endpoints are off.
func refuseState(c echo.Context) error {
	return answerState(c, http.StatusForbidden, "resets and snapshots are not allowed; start lazuli with --admin-state")
}

// reset is POST /admin/reset?account=NAME&service=blob,queue,table&prefix=P&seed=true; each parameter is optional.
func (h stateHandler) reset(c echo.Context) error {
	// A misspelt parameter would widen the reset: "acount=x" would delete all accounts.
	for name := range c.QueryParams() {
		switch name {
		case "account", "service", "prefix", "seed":
		default:
			return answerState(c, http.StatusBadRequest,
				"there is no parameter "+name+"; known are account, service, prefix and seed")
		}
	}
	scope := server.Scope{Account: c.QueryParam("account"), Prefix: c.QueryParam("prefix")}
	if names := c.QueryParam("service"); names != "" {
		for name := range strings.SplitSeq(names, ",") {
			svc, ok := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[name]
			if !ok {
				return answerState(c, http.StatusBadRequest, "service must be some of blob, queue and table, separated by commas")
			}
			scope.Services = append(scope.Services, svc)
		}
	}
	seed := c.QueryParam("seed")
	if seed != "" && seed != "true" && seed != "false" {
		return answerState(c, http.StatusBadRequest, "seed must be true or false")
	}
	// Asked before anything is deleted.
	if seed == "true" && h.seed == nil {
		return failState(c, errNoSeed)
	}
	// The seed is applied after the reset has ended: a deletion that is still running would delete the seed as well.
	deleted, err := h.state().Reset(c.Request().Context(), scope)
	if err == nil && seed == "true" {
		err = h.seed(c.Request().Context())
	}
	if err != nil {
		return failState(c, err)
	}
	return writeJSON(c, http.StatusOK, struct {
		Containers int `json:"containers"`
		Queues     int `json:"queues"`
		Tables     int `json:"tables"`
	}{deleted[wire.Blob], deleted[wire.Queue], deleted[wire.Table]})
}

var errNoSeed = errors.New("there is no seed; start lazuli with --seed FILE")

// reseed is POST /admin/seed: it creates the resources of the seed file that do not exist.
func (h stateHandler) reseed(c echo.Context) error {
	if h.seed == nil {
		return failState(c, errNoSeed)
	}
	return done(c, http.StatusOK, h.seed(c.Request().Context()))
}

// list is GET /admin/snapshots.
func (h stateHandler) list(c echo.Context) error {
	list, err := h.state().Snapshots()
	if err != nil {
		return failState(c, err)
	}
	return writeJSON(c, http.StatusOK, list)
}

// save is POST /admin/snapshots/NAME?replace=true.
func (h stateHandler) save(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), patience)
	defer cancel()
	return done(c, http.StatusCreated, h.state().Save(ctx, c.Param("name"), c.QueryParam("replace") == "true"))
}

// restore is POST /admin/snapshots/NAME/restore.
func (h stateHandler) restore(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), patience)
	defer cancel()
	return done(c, http.StatusOK, h.state().Restore(ctx, c.Param("name")))
}

// remove is DELETE /admin/snapshots/NAME.
func (h stateHandler) remove(c echo.Context) error {
	return done(c, http.StatusNoContent, h.state().RemoveSnapshot(c.Param("name")))
}

func done(c echo.Context, status int, err error) error {
	if err != nil {
		return failState(c, err)
	}
	return c.NoContent(status)
}

// failState answers with the status of an error of the state.
func failState(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	for _, known := range []struct {
		err    error
		status int
	}{
		{server.ErrUnknownAccount, http.StatusNotFound}, {server.ErrStandby, http.StatusConflict},
		{datadir.ErrSnapshotNotFound, http.StatusNotFound},
		{datadir.ErrSnapshotName, http.StatusBadRequest},
		{datadir.ErrSnapshotExists, http.StatusConflict}, {errNoSeed, http.StatusConflict},
		{server.ErrBusy, http.StatusServiceUnavailable},
		{server.ErrElsewhere, http.StatusNotImplemented}, {server.ErrClustered, http.StatusNotImplemented},
		{server.ErrFront, http.StatusNotImplemented}, {server.ErrSpread, http.StatusNotImplemented},
		{datadir.ErrTemporary, http.StatusNotImplemented},
	} {
		if errors.Is(err, known.err) {
			status = known.status
		}
	}
	return answerState(c, status, err.Error())
}

func answerState(c echo.Context, status int, why string) error {
	return writeJSON(c, status, struct {
		Error string `json:"error"`
	}{why})
}

func writeJSON(c echo.Context, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.JSONBlob(status, append(text, '\n'))
}
