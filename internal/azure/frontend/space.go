package frontend

import (
	"net/http"
	"slices"
)

// Space holds what a front-end asks and tells about the disk; see package diskspace.
type Space interface {
	// Full reports whether operations that need room are refused.
	Full() bool
	// Failed is called with the error of a request, and reports whether it means that the disk is full.
	Failed(err error) bool
}

// roomless are the operations whose method is that of a write, and that need no room, or little: they read, delete, or
// end what prevents a delete.
var roomless = []string{"BlobBatch", "GetUserDelegationKey", "QueryBlobContents", "LeaseBlob", "LeaseContainer",
	"AbortCopyBlob"}

// needsRoom says whether an operation is refused while the disk is full.
func needsRoom(method, name string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
		return false
	}
	return name != "DeleteEntity" && !slices.Contains(roomless, name)
}
