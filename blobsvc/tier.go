package blobsvc

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// parseTier reads an access tier of block blobs, in any case.
func parseTier(s string) (string, bool) {
	for _, tier := range [...]string{"Hot", "Cool", "Cold", state.ArchiveTier} {
		if strings.EqualFold(s, tier) {
			return tier, true
		}
	}
	return "", false
}

// newTier reads x-ms-access-tier of an operation that creates a blob. Page blob tiers exist on premium accounts alone.
func (c *call) newTier(kind state.Kind) (string, error) {
	s := c.Header("X-Ms-Access-Tier")
	if s == "" {
		return "", nil
	}
	tier, ok := parseTier(s)
	if !ok {
		return "", wire.InvalidHeader("x-ms-access-tier", s)
	}
	if kind != state.BlockBlob {
		return "", state.ErrTier
	}
	return tier, nil
}

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
	pending, err := s.state.SetTier(&w, tier)
	if err != nil {
		return err
	}
	if pending {
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}
