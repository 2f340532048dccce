package admin

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

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

// LoginPath is the path that takes the token of a session as its query parameter "token", for browsers.
const LoginPath = "/ui/login"

// openPaths are the paths that need no token: what monitors a process, and the token issuer, which client libraries
// call.
func openPath(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/metrics", LoginPath, "/metadata/identity/oauth2/token":
		return true
	}
	// it takes a code, which the owner of the webhook has
	if strings.HasPrefix(path, "/admin/events/") && strings.HasSuffix(path, "/validate") {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	second, _, _ := strings.Cut(rest, "/")
	switch first {
	case "oauth":
		return true
	case "ui", "admin", "workers", "search", "debug", "":
		return false
	}
	return second == "v2.0" || second == "oauth2" || second == "discovery" // of an authority: /TENANT/v2.0/...
}

// needToken refuses requests without the token: in the header Authorization, or, for the dashboard, in the cookie that
// a login sets. backup opens the path of backups too, unless it is "".
func needToken(token, backup string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if openPath(r.URL.Path) || brings(r, token) || r.URL.Path == BackupPath && backup != "" && brings(r, backup) {
				return next(c)
			}
			const how = "This server has accounts with secret keys, so its admin listener needs a token."
			if page(r.URL.Path) {
				return c.String(http.StatusUnauthorized,
					how+"\nOpen the address that the server printed at its start: http://"+r.Host+LoginPath+"?token=TOKEN\n")
			}
			c.Response().Header().Set("WWW-Authenticate", `Bearer realm="lazuli"`)
			return answerState(c, http.StatusUnauthorized,
				how+" Set LAZULI_ADMIN_TOKEN to the token that the server printed at its start, or send the header "+
					"Authorization: Bearer TOKEN.")
		}
	}
}

func page(path string) bool { return path == "/" || path == "/ui" || strings.HasPrefix(path, "/ui/") }

// brings reports whether a request has the token.
func brings(r *http.Request, token string) bool {
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(given, token) {
		return true
	}
	if !page(r.URL.Path) { // the cookie is the dashboard's, whose forms have a token of their own
		return false
	}
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && same(cookie.Value, token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookieName names the session of one server: cookies are sent to all ports of a host.
func cookieName(r *http.Request) string {
	u := url.URL{Host: r.Host}
	return "lazuli-" + u.Port()
}

// login is GET /ui/login?token=TOKEN: it sets the cookie of the session and redirects to the dashboard, whose address
// has no token.
func login(token string) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "no-store")
		c.Response().Header().Set("Referrer-Policy", "no-referrer")
		if token != "" {
			if !same(c.QueryParam("token"), token) {
				return c.String(http.StatusForbidden,
					"The token is not the one of this server. It is printed at the server's start.\n")
			}
			c.SetCookie(&http.Cookie{Name: cookieName(c.Request()), Value: token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
		}
		return c.Redirect(http.StatusSeeOther, "/ui/")
	}
}
