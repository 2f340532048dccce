package properties

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Stats serves Get Service Stats, an operation of the secondary endpoint. There is one copy of the data: the secondary
// endpoint reads what the primary wrote, so the last sync time is now.
// https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats
func Stats(r *wire.Request) error {
	if !r.Secondary {
		return wire.InvalidQuery("comp", r.Comp, "The operation is available on the secondary endpoint only.")
	}
	return r.XML(http.StatusOK, wire.NewXML(256).Open("StorageServiceStats").Open("GeoReplication").
		Text("Status", "live").Text("LastSyncTime", wire.FormatRFC1123(r.Now)).
		Close("GeoReplication").Close("StorageServiceStats"))
}
