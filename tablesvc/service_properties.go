package tablesvc

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// propertiesOf returns the service properties of an account. They are shared and must not be changed.
func (s *Service) propertiesOf(account string) *properties.Properties {
	if p, ok := s.properties.Load(account); ok {
		return p.(*properties.Properties)
	}
	return &noProperties
}

// noProperties are those of an account that never set any: everything off.
var noProperties properties.Properties

func decodeProperties(b []byte) (*properties.Properties, error) {
	p := new(properties.Properties)
	return p, json.Unmarshal(b, p)
}

// setServiceProperties is Set Table Service Properties. A section that the document lacks keeps its value.
// https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties
func (s *Service) setServiceProperties(c *call) error {
	body, err := c.ReadBody(properties.MaxBody)
	if err != nil {
		return err
	}
	var p properties.Properties
	err = s.db.Update(func(tx *store.Tx) error {
		key := propertiesKey(c.Account)
		old := new(properties.Properties)
		if b := tx.Get(bucketService, key); b != nil {
			if old, err = decodeProperties(b); err != nil {
				return fmt.Errorf("service properties of %s: %w", c.Account, err)
			}
		}
		if p, err = old.Update(wire.Table, body, s.features); err != nil {
			return err
		}
		b, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("encoding service properties: %w", err)
		}
		tx.Put(bucketService, key, b)
		return nil
	})
	if err != nil {
		return err
	}
	s.properties.Store(c.Account, &p)
	return c.Status(http.StatusAccepted)
}

// getServiceProperties is Get Table Service Properties.
// https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties
func (s *Service) getServiceProperties(c *call) error {
	return c.XML(http.StatusOK, s.propertiesOf(c.Account).XML(wire.Table, c.version))
}

// preflight is Preflight Table Request: whether a browser may send the request that it describes.
// https://learn.microsoft.com/rest/api/storageservices/preflight-table-request
func (s *Service) preflight(c *call) error {
	if err := properties.Preflight(c.Request, s.propertiesOf(c.Account).CORS); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}
