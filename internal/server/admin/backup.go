package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// BackupPath is the path of backups, for which there is a token of its own.
const BackupPath = "/admin/backup"

const (
	// backupStall ends a backup whose caller reads nothing for so long.
	backupStall = time.Minute
	// maxHeld is the size of the longest list of what a caller has, in bytes.
	maxHeld = 1 << 30
)

// Backups gives the state of a moment: a [server.Server].
type Backups interface {
	Backup(ctx context.Context, hold bool, held backup.Held) (backup.Source, error)
}

// HoldWrites is the query parameter of a backup for which the writes of a cluster are held.
const HoldWrites = "hold-writes"

// backupHandler serves POST /admin/backup: a stream of all data, which leaves out what the body, a [backup.Held],
// names. It changes nothing.
type backupHandler struct {
	backups func() Backups // nil while the services start
}

func (h backupHandler) send(c echo.Context) error {
	backups := h.backups()
	if backups == nil {
		return answerState(c, http.StatusServiceUnavailable, "the services are starting")
	}
	var held backup.Held
	if err := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, maxHeld)).Decode(&held); err != nil {
		return answerState(c, http.StatusBadRequest, "the body is no list of what the caller has: "+err.Error())
	}
	hold := false
	switch c.QueryParam(HoldWrites) {
	case "", "false":
	case "true":
		hold = true
	default:
		return answerState(c, http.StatusBadRequest, HoldWrites+" must be true or false")
	}
	m, err := backups.Backup(c.Request().Context(), hold, held)
	if err != nil {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, server.ErrCannotHold):
			status = http.StatusConflict
		case errors.Is(err, server.ErrNotReady), errors.Is(err, store.ErrNotHeld), errors.Is(err, store.ErrUnavailable),
			errors.Is(err, store.ErrUnknown):
			status = http.StatusServiceUnavailable
		case errors.Is(err, server.ErrFront):
			status = http.StatusNotImplemented
		}
		return answerState(c, status, err.Error())
	}
	defer m.Close()
	// The status is sent before the content is read: an error of the source comes at the end of the stream.
	c.Response().Header().Set("Content-Type", "application/octet-stream")
	c.Response().WriteHeader(http.StatusOK)
	return backup.Send(c.Request().Context(), stallGuard{c.Response(), http.NewResponseController(c.Response())}, m, held)
}

// stallGuard gives each write its own time.
type stallGuard struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w stallGuard) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(backupStall))
	return w.ResponseWriter.Write(p)
}
