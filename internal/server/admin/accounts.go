package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

const (
	// maxAccount bounds an account, in bytes of JSON.
	maxAccount = 16 << 10
	// accountPage is the number of accounts of a page if the request does not say, maxAccountPage the largest one.
	accountPage, maxAccountPage = 1000, 5000
)

// accountHandler serves /admin/accounts.
type accountHandler struct {
	accounts func() *accounts.Manager // nil while the services start
}

func (h accountHandler) routes(e *echo.Echo) {
	g := e.Group("/admin/accounts", whenOpen(func() bool { return h.accounts() != nil }))
	g.GET("", h.list)
	g.POST("", h.add)
	g.GET("/:name", h.get)
	g.PATCH("/:name", h.set)
	g.DELETE("/:name", h.remove)
	// POST, as listKeys and regenerateKey of Azure: no proxy or browser keeps the response to one.
	g.POST("/:name/keys", h.keys)
	g.POST("/:name/keys/:key", h.rotate)
}

// refuseAccounts answers if accounts are those of the configuration alone.
func refuseAccounts(c echo.Context) error {
	return answerState(c, http.StatusForbidden,
		"accounts cannot be changed through the server; start lazuli with --managed-accounts")
}

// AccountPage is the response to GET /admin/accounts.
type AccountPage struct {
	Accounts []accounts.Account `json:"accounts"`
	// Next is the parameter after of the next page; "" on the last one.
	Next string `json:"next,omitempty"`
}

// list is GET /admin/accounts?prefix=P&after=NAME&limit=N.
func (h accountHandler) list(c echo.Context) error {
	limit := accountPage
	if text := c.QueryParam("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxAccountPage {
			return answerState(c, http.StatusBadRequest, "limit must be a number from 1 to 5000")
		}
	}
	list, more, err := h.accounts().List(c.QueryParam("prefix"), c.QueryParam("after"), limit)
	if err != nil {
		return failAccount(c, err)
	}
	page := AccountPage{Accounts: list}
	if len(list) == 0 {
		page.Accounts = []accounts.Account{} // null would be no list to clients
	}
	if more {
		page.Next = list[len(list)-1].Name
	}
	return writeJSON(c, http.StatusOK, page)
}

// NewAccount is the body of POST /admin/accounts.
type NewAccount struct {
	Name string `json:"name"`
	// Keys are one or two keys in base64; without any the account gets two random ones.
	Keys     []string          `json:"keys,omitempty"`
	Settings accounts.Settings `json:"settings,omitempty"`
}

// readAccount reads a request's body. The error repeats nothing of it, since it may have keys.
func readAccount(c echo.Context, into any) (err error) {
	text, err := io.ReadAll(io.LimitReader(c.Request().Body, maxAccount+1))
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if len(text) > maxAccount || d.Decode(into) != nil || d.More() {
		return errAccountBody
	}
	return nil
}

var errAccountBody = errors.New("the body is not a JSON object with the known fields, of at most 16 KiB; settings are " +
	"strings by their names")

// add is POST /admin/accounts. The response has no keys.
func (h accountHandler) add(c echo.Context) error {
	var a NewAccount
	if err := readAccount(c, &a); err != nil {
		return failAccount(c, err)
	}
	if _, err := h.accounts().Add(a.Name, a.Keys, a.Settings); err != nil {
		return failAccount(c, err)
	}
	return h.answer(c, http.StatusCreated, a.Name)
}

// answer answers with what an account is now.
func (h accountHandler) answer(c echo.Context, status int, name string) error {
	a, err := h.accounts().Get(name)
	if err != nil {
		return failAccount(c, err)
	}
	return writeJSON(c, status, a)
}

// get is GET /admin/accounts/NAME.
func (h accountHandler) get(c echo.Context) error { return h.answer(c, http.StatusOK, c.Param("name")) }

// set is PATCH /admin/accounts/NAME with settings, of which null unsets one.
func (h accountHandler) set(c echo.Context) error {
	var body struct {
		Settings map[string]*string `json:"settings"`
	}
	if err := readAccount(c, &body); err != nil {
		return failAccount(c, err)
	}
	if err := h.accounts().Set(c.Param("name"), body.Settings); err != nil {
		return failAccount(c, err)
	}
	return h.answer(c, http.StatusOK, c.Param("name"))
}

// remove is DELETE /admin/accounts/NAME?delete-data=true.
func (h accountHandler) remove(c echo.Context) error {
	// A misspelt parameter must not pass for a removal that deletes nothing.
	for name := range c.QueryParams() {
		if name != "delete-data" {
			return answerState(c, http.StatusBadRequest, "there is no parameter "+name+"; known is delete-data")
		}
	}
	data := c.QueryParam("delete-data")
	if data != "" && data != "true" && data != "false" {
		return answerState(c, http.StatusBadRequest, "delete-data must be true or false")
	}
	if err := h.accounts().Remove(c.Param("name"), data == "true"); err != nil {
		return failAccount(c, err)
	}
	return c.NoContent(http.StatusAccepted)
}

// AccountKeys is the response to POST /admin/accounts/NAME/keys.
type AccountKeys struct {
	Name string   `json:"name"`
	Keys []string `json:"keys"`
}

// keys is POST /admin/accounts/NAME/keys: the keys, which are secrets.
func (h accountHandler) keys(c echo.Context) error {
	keys, err := h.accounts().Keys(c.Param("name"))
	if err != nil {
		return failAccount(c, err)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return writeJSON(c, http.StatusOK, AccountKeys{c.Param("name"), keys})
}

// rotate is POST /admin/accounts/NAME/keys/1 or 2: it replaces the key by a random one. The response has no keys.
func (h accountHandler) rotate(c echo.Context) error {
	key, err := strconv.Atoi(c.Param("key"))
	if err != nil {
		key = 0 // which is no key
	}
	if _, err := h.accounts().Rotate(c.Param("name"), key); err != nil {
		return failAccount(c, err)
	}
	return h.answer(c, http.StatusOK, c.Param("name"))
}

// failAccount answers with the status of an error of accounts.
func failAccount(c echo.Context, err error) error {
	status := http.StatusInternalServerError
	for _, known := range []struct {
		err    error
		status int
	}{
		{errAccountBody, http.StatusBadRequest}, {accounts.ErrInvalid, http.StatusBadRequest},
		{accounts.ErrNotFound, http.StatusNotFound},
		{accounts.ErrExists, http.StatusConflict}, {accounts.ErrConfigured, http.StatusConflict},
		{accounts.ErrRemoving, http.StatusConflict}, {accounts.ErrHasData, http.StatusConflict},
		{accounts.ErrTooMany, http.StatusConflict},
		{server.ErrDiskFull, http.StatusInsufficientStorage}, {store.ErrUnavailable, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, known.err) {
			status = known.status
		}
	}
	return answerState(c, status, err.Error())
}
