package tablesvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
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
