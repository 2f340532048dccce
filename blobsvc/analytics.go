package blobsvc

import (
	"github.com/lazuli-storage/lazuli/internal/auth"
	"github.com/lazuli-storage/lazuli/internal/properties"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// logsContainer holds the logs of Storage Analytics.
const logsContainer = "$logs"

// mayLogs refuses what callers may not do to the container of the logs, which only the system itself makes and fills:
// they may read it, list it and delete blobs in it.
// https://learn.microsoft.com/rest/api/storageservices/about-storage-analytics-logging#how-logs-are-stored
func (c *call) mayLogs(need auth.Need) error {
	if c.container != logsContainer || c.System() {
		return nil
	}
	switch need.Any {
	case "r", "l", "t", "f":
		return nil
	case deleteLetters:
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}

// ServiceProperties returns what Set Blob Service Properties last set for an account, for those who write logs and
// metrics. It must not be changed.
func (s *Service) ServiceProperties(account string) *properties.Properties {
	return s.settings.of(account)
}
