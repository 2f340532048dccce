package tablesvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// checkTableName returns an error for names outside the rules and for the reserved name.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names
func checkTableName(name string) error {
	switch {
	case entity.TableName(name) && strings.EqualFold(name, "tables"):
		return errInvalidInput
	case entity.TableName(name):
		return nil
	case (len(name) < 3 || len(name) > 63) && entity.TableName("Aaa"+name[:min(len(name), 60)]):
		return errTableNameLength
	}
	return errTableName
}

// analyticsTable reports whether a name is one of Storage Analytics' tables. They are hidden from lists, and only the
// system itself creates and fills them.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema
func analyticsTable(name string) bool {
	return len(name) > 8 && strings.EqualFold(name[:8], "$Metrics") && entity.TableName(name[1:])
}
