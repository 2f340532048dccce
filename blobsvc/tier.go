package blobsvc

import (
	"net/http"

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
	priority, err := c.word("X-Ms-Rehydrate-Priority", "High", "Standard")
	return priority == "High", err
}
