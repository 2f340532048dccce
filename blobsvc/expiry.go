package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// setBlobExpiry: https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry
func (s *Service) setBlobExpiry(c *call) error {
	if err := s.checkExpiry(c); err != nil {
		return err
	}
	if c.Header("X-Ms-Expiry-Option") == "" {
		return wire.MissingHeader("x-ms-expiry-option")
	}
	w, err := s.write(c)
	if err != nil {
		return err
	}
	e, err := c.expiry()
	if err != nil {
		return err
	}
	result, err := s.state.SetExpiry(&w, e)
	if err != nil {
		return c.expiryError(err)
	}
	c.sendChanged(result.Changed)
	return c.Status(http.StatusOK)
}
