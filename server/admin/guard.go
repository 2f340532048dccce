package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/httpserver/originguard"
)

// guard refuses requests that a web page may have caused; see the package comment.
func guard(allow []string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if why := originguard.Refusal(c.Request(), allow); why != "" {
				return c.String(http.StatusForbidden, why+" (names: --admin-allow-host)\n")
			}
			return next(c)
		}
	}
}
