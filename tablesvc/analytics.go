package tablesvc

import (
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// checkAnalytics returns an error if the operation is on an analytics table and is not a read or a deletion of its
// entities.
func (c *call) checkAnalytics(table string, need auth.Need) error {
	if !entity.AnalyticsTable(table) || c.System() || need.On == auth.OnObject && (need.Any == "r" || need.Any == "d") {
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}
