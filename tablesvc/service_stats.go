package tablesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// getServiceStats is Get Table Service Stats. It is answered on the secondary endpoint alone, which here reads the
// same store and so is never behind.
// https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats
func (s *Service) getServiceStats(c *call) error {
	if !c.Secondary {
		return wire.InvalidQuery("comp", c.Comp, "It is answered by the secondary endpoint only.")
	}
	return c.XML(http.StatusOK, wire.NewXML(256).Open("StorageServiceStats").Open("GeoReplication").
		Text("Status", "live").Text("LastSyncTime", wire.FormatRFC1123(c.Now)).
		Close("GeoReplication").Close("StorageServiceStats"))
}
