package blobsvc

import (
	"context"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
)

// supported returns the service properties that can be enabled. features are the ones that other packages implement.
func supported(features properties.Features) properties.Features {
	features.DeleteRetention, features.StaticWebsite = true, true
	return features
}

// getServiceProperties: https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties
func (s *Service) getServiceProperties(c *call) error {
	if err := s.state.Accounts.Current(); err != nil {
		return err
	}
	return s.properties.Get(c.Request, c.EffectiveVersion())
}

// setServiceProperties: https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties
func (s *Service) setServiceProperties(c *call) error {
	if err := s.properties.Set(c.Request); err != nil {
		return err
	}
	return c.Status(http.StatusAccepted)
}

// changeProperties replaces the service properties of an account, and creates the container of its static website.
func (s *Service) changeProperties(_ context.Context, account string,
	change func([]byte) (*properties.Properties, []byte, error)) error {
	return s.state.Accounts.ChangeProperties(account, s.now(), func(old []byte) (value []byte, website bool, err error) {
		p, value, err := change(old)
		return value, err == nil && p.StaticWebsite.Enabled, err
	})
}

// preflight: https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func (s *Service) preflight(c *call) error { return s.properties.Preflight(c.Request) }

// getAccountInformation: https://learn.microsoft.com/rest/api/storageservices/get-account-information
func (s *Service) getAccountInformation(c *call) error {
	c.Set("x-ms-sku-name", "Standard_RAGRS")
	c.Set("x-ms-account-kind", "StorageV2")
	if c.EffectiveVersion() >= endpoint.V20190707 {
		c.Set("x-ms-is-hns-enabled", strconv.FormatBool(s.storage.Hierarchical(c.Account)))
	}
	return c.Status(http.StatusOK)
}

// getServiceStats: https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats
func (s *Service) getServiceStats(c *call) error { return properties.Stats(c.Request) }

// getUserDelegationKey: https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
func (s *Service) getUserDelegationKey(c *call) error {
	return auth.GetUserDelegationKey(c.Request, c.Identity, s.accounts)
}

// Reset deletes the containers of an account whose names begin with prefix, and returns how many there were. It ignores
// leases and immutability, and nothing can be restored. With an empty prefix it deletes the service properties too. It
// is an operator's tool, not an operation of the REST reference.
func (s *Service) Reset(account, prefix string) (deleted int, err error) {
	reset := func() (err error) {
		deleted, err = s.state.Accounts.Reset(account, prefix)
		return err
	}
	if prefix == "" {
		err = s.properties.Remove(account, reset)
	} else {
		err = reset()
	}
	s.background.Wake()
	return deleted, err
}
