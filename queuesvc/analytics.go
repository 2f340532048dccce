package queuesvc

import "github.com/lazuli-storage/lazuli/internal/azure/properties"

// ServiceProperties returns what Set Queue Service Properties last set for an account, for those who write logs and
// metrics. It must not be changed.
func (s *Service) ServiceProperties(account string) *properties.Properties {
	return s.properties.Of(account)
}
