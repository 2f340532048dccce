package tablesvc

import (
	"context"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
)

// changeProperties replaces the service properties of an account.
func (s *Service) changeProperties(_ context.Context, account string,
	change func([]byte) (*properties.Properties, []byte, error)) error {
	return s.state.ChangeServiceProperties(account, func(old []byte) ([]byte, error) {
		_, value, err := change(old)
		return value, err
	})
}

// setServiceProperties is Set Table Service Properties.
// https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties
func (s *Service) setServiceProperties(c *call) error {
	if err := s.properties.Set(c.Request); err != nil {
		return err
	}
	return c.Status(http.StatusAccepted)
}

// getServiceProperties is Get Table Service Properties.
// https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties
func (s *Service) getServiceProperties(c *call) error {
	if err := s.state.Current(); err != nil {
		return err
	}
	return s.properties.Get(c.Request, c.version)
}

// getServiceStats is Get Table Service Stats.
// https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats
func (s *Service) getServiceStats(c *call) error { return properties.Stats(c.Request) }

// preflight is Preflight Table Request: whether a browser may send the request that it describes.
// https://learn.microsoft.com/rest/api/storageservices/preflight-table-request
func (s *Service) preflight(c *call) error { return s.properties.Preflight(c.Request) }
