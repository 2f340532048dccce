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
	switch priority := c.Header("X-Ms-Rehydrate-Priority"); priority {
	case "", "Standard", "High":
	default:
		return wire.InvalidHeader("x-ms-rehydrate-priority", priority)
	}
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	pending, err := s.state.SetTier(&w, tier, c.Header("X-Ms-Rehydrate-Priority") == "High")
	if err != nil {
		return err
	}
	if pending {
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}
