package admin

import (
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
)

// maxRule bounds a fault rule, in bytes of JSON.
const maxRule = 16 << 10

// faultHandler serves /admin/faults.
type faultHandler struct {
	rules func() *faultrule.Set // nil while the services start
}

func (h faultHandler) routes(e *echo.Echo) {
	g := e.Group("/admin/faults", whenOpen(func() bool { return h.rules() != nil }))
	g.GET("", h.list)
	g.POST("", h.add)
	g.DELETE("", h.clear)
	g.DELETE("/:name", h.remove)
}

// refuseFaults answers if fault rules are not allowed.
func refuseFaults(c echo.Context) error {
	return answerState(c, http.StatusForbidden, "fault rules are not allowed; start lazuli with --faults")
}

// list is GET /admin/faults: the rules in their order, with their counts.
func (h faultHandler) list(c echo.Context) error {
	return writeJSON(c, http.StatusOK, h.rules().Rules())
}

// add is POST /admin/faults with a rule as JSON. It answers with the rule and its name.
func (h faultHandler) add(c echo.Context) error {
	text, err := io.ReadAll(io.LimitReader(c.Request().Body, maxRule+1))
	if err != nil {
		return err
	}
	if len(text) > maxRule {
		return answerState(c, http.StatusRequestEntityTooLarge, "the rule is too large")
	}
	rule, err := faultrule.Decode(text)
	if err == nil {
		rule, err = h.rules().Add(rule)
	}
	if err != nil {
		return failFault(c, err)
	}
	return writeJSON(c, http.StatusCreated, rule)
}

// remove is DELETE /admin/faults/NAME.
func (h faultHandler) remove(c echo.Context) error {
	if err := h.rules().Remove(c.Param("name")); err != nil {
		return failFault(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// clear is DELETE /admin/faults. It answers with the number of removed rules.
func (h faultHandler) clear(c echo.Context) error {
	return writeJSON(c, http.StatusOK, struct {
		Removed int `json:"removed"`
	}{h.rules().Clear()})
}

// failFault answers with the status of an error of the rules.
func failFault(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, faultrule.ErrRule):
		status = http.StatusBadRequest
	case errors.Is(err, faultrule.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, faultrule.ErrExists), errors.Is(err, faultrule.ErrTooMany):
		status = http.StatusConflict
	}
	return answerState(c, status, err.Error())
}
