package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/server/events"
)

const (
	// maxSubscription bounds an event subscription, in bytes of JSON.
	maxSubscription = 64 << 10
	// flushTimeout is the time that a flush waits if the request does not say, maxFlush the longest wait.
	flushTimeout = 30 * time.Second
	maxFlush     = 10 * time.Minute
)

// eventHandler serves /admin/events.
type eventHandler struct {
	// nil while the services start, and on a node of a cluster that does not deliver events
	manager   func() *events.Manager
	elsewhere func() error // the reason of the latter; nil on a single server
}

func (h eventHandler) routes(e *echo.Echo) {
	g := e.Group("/admin/events")
	with := func(do func(echo.Context, *events.Manager) error) echo.HandlerFunc {
		return func(c echo.Context) error {
			m := h.manager()
			if m == nil {
				if h.elsewhere != nil {
					if err := h.elsewhere(); err != nil {
						return answerState(c, http.StatusMisdirectedRequest, err.Error())
					}
				}
				return answerState(c, http.StatusServiceUnavailable, "the services are starting")
			}
			return do(c, m)
		}
	}
	g.GET("", with(h.list))
	g.POST("", with(h.add))
	g.DELETE("/:account/:name", with(h.remove))
	g.POST("/flush", with(h.flush))
	g.GET("/:account/:name/validate", with(h.validate))
}

// refuseEvents answers if event subscriptions are not allowed.
func refuseEvents(c echo.Context) error {
	return answerState(c, http.StatusForbidden, "event subscriptions are not allowed; start lazuli with --events")
}

// list is GET /admin/events: the subscriptions with their counts.
func (h eventHandler) list(c echo.Context, m *events.Manager) error {
	return writeJSON(c, http.StatusOK, m.List())
}

// add is POST /admin/events with a subscription as JSON. It answers once the endpoint has been validated.
func (h eventHandler) add(c echo.Context, m *events.Manager) error {
	text, err := io.ReadAll(io.LimitReader(c.Request().Body, maxSubscription+1))
	if err != nil {
		return err
	}
	if len(text) > maxSubscription {
		return answerState(c, http.StatusRequestEntityTooLarge, "the subscription is too large")
	}
	s, err := events.Decode(text)
	if err != nil {
		return failEvent(c, err)
	}
	status, err := m.Add(c.Request().Context(), s)
	if err != nil {
		return failEvent(c, err)
	}
	return writeJSON(c, http.StatusCreated, status)
}

// remove is DELETE /admin/events/ACCOUNT/NAME.
func (h eventHandler) remove(c echo.Context, m *events.Manager) error {
	if err := m.Remove(c.Param("account"), c.Param("name")); err != nil {
		return failEvent(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// flush is POST /admin/events/flush?timeout=30s: it answers once all events so far are delivered, dead-lettered or
// dropped, and 504 if that takes longer.
func (h eventHandler) flush(c echo.Context, m *events.Manager) error {
	wait := flushTimeout
	if text := c.QueryParam("timeout"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxFlush {
			return answerState(c, http.StatusBadRequest, "timeout must be a time up to 10m, such as 30s")
		}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait)
	defer cancel()
	left, err := m.Flush(ctx)
	if errors.Is(err, events.ErrUndelivered) {
		return writeJSON(c, http.StatusGatewayTimeout, struct {
			Error string `json:"error"`
			events.Flushed
		}{err.Error() + describe(left), left})
	}
	if err != nil {
		return failEvent(c, err)
	}
	return writeJSON(c, http.StatusOK, left)
}

// describe names the subscriptions with undelivered events.
func describe(left events.Flushed) (text string) {
	for name, last := range left.Undelivered {
		text += "; " + name
		if last != "" {
			text += ": " + last
		}
	}
	return text
}

// validate is GET /admin/events/ACCOUNT/NAME/validate?code=CODE, the address for validation by hand that the handshake
// names.
func (h eventHandler) validate(c echo.Context, m *events.Manager) error {
	if err := m.Confirm(c.Param("account"), c.Param("name"), c.QueryParam("code")); err != nil {
		return failEvent(c, err)
	}
	return c.String(http.StatusOK, "Webhook successfully validated as a subscription endpoint.\n")
}

// failEvent answers with the status of an error of event subscriptions.
func failEvent(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	for _, known := range []struct {
		err    error
		status int
	}{
		{events.ErrInvalid, http.StatusBadRequest}, {events.ErrHandshake, http.StatusBadRequest},
		{events.ErrHost, http.StatusForbidden},
		{events.ErrExists, http.StatusConflict}, {events.ErrTooMany, http.StatusConflict},
		{events.ErrNotFound, http.StatusNotFound},
		{events.ErrCode, http.StatusForbidden}, {events.ErrNotHere, http.StatusMisdirectedRequest},
	} {
		if errors.Is(err, known.err) {
			status = known.status
		}
	}
	return answerState(c, status, err.Error())
}
