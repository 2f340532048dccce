package tablesvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// analyticsTable reports whether a name is one of Storage Analytics' tables: they are hidden from lists, and only the
// system itself makes and fills them.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema
func analyticsTable(name string) bool {
	return len(name) > 8 && strings.EqualFold(name[:8], "$Metrics") && entity.TableName(name[1:])
}

// mayAnalytics refuses what callers may not do to an analytics table: all but reading and deleting its entities.
func (c *call) mayAnalytics(table string, need auth.Need) error {
	if !analyticsTable(table) || c.System() || need.On == auth.OnObject && (need.Any == "r" || need.Any == "d") {
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}
