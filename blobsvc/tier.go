package blobsvc

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// setBlobTier: https://learn.microsoft.com/rest/api/storageservices/set-blob-tier
// Content does not move with the tier.
func (s *Service) setBlobTier(c *call) error {
	text := c.Header("X-Ms-Access-Tier")
	if text == "" {
		return wire.MissingHeader("x-ms-access-tier")
	}
	tier, ok := parseTier(text)
	if !ok {
		return wire.InvalidHeader("x-ms-access-tier", text)
	}
	high, err := c.highPriority()
	if err != nil {
		return err
	}
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	pending, err := s.state.SetTier(&w, tier, high)
	if err != nil {
		return err
	}
	if pending {
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}

// highPriority reads x-ms-rehydrate-priority. It reports whether a blob is to leave the archive with high priority.
func (c *call) highPriority() (bool, error) {
	switch priority := c.Header("X-Ms-Rehydrate-Priority"); {
	case strings.EqualFold(priority, "High"):
		return true, nil
	case priority == "", strings.EqualFold(priority, "Standard"):
		return false, nil
	default:
		return false, wire.InvalidHeader("x-ms-rehydrate-priority", priority)
	}
}
