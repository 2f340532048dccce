package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
)

// The paths of a standby: GET shows what it has, POST promotes it. PromotePath takes the parameter force=true.
const (
	StandbyPath = "/admin/standby"
	PromotePath = "/admin/standby/promote"
)

// Standby is a standby: a [server.Server].
type Standby interface {
	StandbyStatus() (archive.Status, error)
	Promote(ctx context.Context, force bool) (server.Promotion, error)
}

// standbyHandler serves StandbyPath and PromotePath.
type standbyHandler struct {
	standby func() Standby // nil while the services start
}

func (h standbyHandler) routes(e *echo.Echo) {
	e.GET(StandbyPath, h.open(func(c echo.Context, s Standby) error {
		status, err := s.StandbyStatus()
		if err != nil {
			return failStandby(c, err)
		}
		return writeJSON(c, http.StatusOK, status)
	}))
	// It stops another server: not for whom the admin listener is open to without a token.
	e.POST(PromotePath, localOnly(h.open(func(c echo.Context, s Standby) error {
		force := c.QueryParam("force")
		if force != "" && force != "true" {
			return answerState(c, http.StatusBadRequest, "force is true, or is left out")
		}
		// A caller that goes away in between would leave a server that has taken the place and does not serve.
		p, err := s.Promote(context.WithoutCancel(c.Request().Context()), force != "")
		if err != nil {
			return failStandby(c, err)
		}
		return writeJSON(c, http.StatusOK, p)
	})))
}

// open calls next once the services are open.
func (h standbyHandler) open(next func(echo.Context, Standby) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s := h.standby(); s != nil {
			return next(c, s)
		}
		return answerState(c, http.StatusServiceUnavailable,
			"this standby has no state of a moment yet; /readyz has the reason")
	}
}

// noStandby answers on a server that was not started as a standby.
func noStandby(c echo.Context) error {
	return answerState(c, http.StatusNotFound, server.ErrNotStandby.Error()+": it was not started with --standby-of")
}

func failStandby(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, server.ErrNotStandby), errors.Is(err, archive.ErrNoFence), errors.Is(err, archive.ErrBehind),
		errors.Is(err, archive.ErrDamaged):
		status = http.StatusConflict
	case errors.Is(err, server.ErrBusy):
		status = http.StatusServiceUnavailable
	}
	return answerState(c, status, err.Error())
}
