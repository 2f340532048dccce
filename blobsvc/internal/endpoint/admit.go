package endpoint

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// AdmitCaller records the caller, and allows anonymous callers to read public containers.
// https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure
func (c *Call) AdmitCaller(id auth.Identity, need auth.Need) error {
	c.Identity = id
	if c.Blob != "" && !need.Record {
		if err := c.refuseRecord(); err != nil {
			return err
		}
	}
	if id.Mechanism != auth.Anonymous {
		return c.mayLogs(need)
	}
	if c.Query.Has("versionid") { // what a blob once was is not what its owner shows to the public
		return frontend.RefuseAnonymous(c.Request)
	}
	rec, err := c.State.Containers.Get(c.Account, c.Container, "", c.Now)
	if err == nil && (rec.Access == "container" || rec.Access == "blob" && need.Public == auth.PublicBlob) {
		return nil
	}
	// An anonymous caller cannot tell a private container from one that does not exist.
	if err != nil && !errors.Is(err, record.ErrContainerNotFound) {
		return err
	}
	return frontend.RefuseAnonymous(c.Request)
}

// refuseRecord refuses a snapshot or version in the URL of an operation that acts on the base blob.
func (c *Call) refuseRecord() error {
	if c.Query.Has("snapshot") {
		if s := c.Query.Get("snapshot"); !validSnapshot(s) {
			return invalidSnapshot(s)
		}
		return wire.InvalidQuery("snapshot", c.Query.Get("snapshot"),
			"This operation is only allowed on the root blob. Snapshot should not be provided.")
	}
	return c.RefuseVersion()
}

// mayLogs refuses what callers may not do to the containers of the logs and of the change feed, which only the system
// itself makes and fills: they may read and list them, and delete logs.
// https://learn.microsoft.com/azure/storage/common/storage-analytics-logging#how-logs-are-stored
func (c *Call) mayLogs(need auth.Need) error {
	switch {
	case c.Container != record.LogsContainer && c.Container != record.ChangeFeedContainer || c.System():
		return nil
	case c.HTTP.Method == http.MethodGet, c.HTTP.Method == http.MethodHead, need.Any == ReadBlob.Any:
		return nil
	case c.Container == record.LogsContainer && need.Any == DeleteLetters:
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}

// DeleteLetters are those of which Delete Blob needs one; which depends on the kind of record.
const DeleteLetters = "dx"
