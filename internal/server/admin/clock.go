package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Clock is the clock of a server for tests.
type Clock interface {
	Now() time.Time
	Offset() time.Duration
	// Change sets the clock forward: by a duration, or to a time.
	Change(text string) error
}

// clockHandler serves /admin/clock.
type clockHandler struct{ clock Clock }

// clockState is the answer.
type clockState struct {
	Now time.Time `json:"now"`
	// Ahead is the time by which the clock is ahead of the system's.
	Ahead string `json:"ahead"`
}

func (h clockHandler) routes(e *echo.Echo) {
	e.GET("/admin/clock", h.get)
	e.POST("/admin/clock", h.set)
}

func refuseClock(c echo.Context) error {
	return answerState(c, http.StatusForbidden, "the server runs on the system's clock; start lazuli with --test-clock")
}

// get is GET /admin/clock.
func (h clockHandler) get(c echo.Context) error {
	return writeJSON(c, http.StatusOK, clockState{h.clock.Now().UTC(), h.clock.Offset().String()})
}

// set is POST /admin/clock?forward=1h30m, or a time such as 2026-03-01T12:00:00Z.
func (h clockHandler) set(c echo.Context) error {
	if err := h.clock.Change(c.QueryParam("forward")); err != nil {
		return answerState(c, http.StatusBadRequest, "forward: "+err.Error())
	}
	return h.get(c)
}
