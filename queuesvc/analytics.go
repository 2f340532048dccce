package queuesvc

import "github.com/lazuli-storage/lazuli/internal/azure/properties"

// ServiceProperties returns the result of the last Set Queue Service Properties of an account, for writers of logs and
// metrics. The caller must not change it.
func (s *Service) ServiceProperties(account string) *properties.Properties {
	return s.properties.Of(account)
}
