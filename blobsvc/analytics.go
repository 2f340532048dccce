package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// mayLogs refuses what callers may not do to the containers of the logs and of the change feed, which only the system
// itself makes and fills: they may read and list them, and delete logs.
// https://learn.microsoft.com/azure/storage/common/storage-analytics-logging#how-logs-are-stored
func (c *call) mayLogs(need auth.Need) error {
	switch {
	case c.container != state.LogsContainer && c.container != state.ChangeFeedContainer || c.System():
		return nil
	case c.HTTP.Method == http.MethodGet, c.HTTP.Method == http.MethodHead, need.Any == readBlob.Any:
		return nil
	case c.container == state.LogsContainer && need.Any == deleteLetters:
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}
