package properties

import (
	"cmp"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Stats serves Get Service Stats, an operation of the secondary endpoint. There is one copy of the data: the secondary
// endpoint reads what the primary wrote, so the last sync time is now, unless a fault rule makes the secondary lag, or
// the server is a standby.
// https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats
func Stats(r *wire.Request) error {
	if !r.Secondary && r.Replication.Status == "" { // a standby answers at all of its endpoints
		return wire.InvalidQuery("comp", r.Comp, "The operation is available on the secondary endpoint only.")
	}
	status, last := cmp.Or(r.Replication.Status, "live"), r.Replication.LastSync
	if last.IsZero() {
		last = r.Now
	}
	synced := ""
	if status == "live" { // otherwise no time is known
		synced = wire.FormatRFC1123(last)
	}
	return r.XML(http.StatusOK, wire.NewXML(256).Open("StorageServiceStats").Open("GeoReplication").
		Text("Status", status).Text("LastSyncTime", synced).
		Close("GeoReplication").Close("StorageServiceStats"))
}
