package frontend

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// maxTimeout is the largest timeout in seconds; a larger value is no limit.
const maxTimeout = 24 * 60 * 60

// bounded calls do within the timeout parameter of the request, text, in whole seconds; 0 is no limit. An operation
// that waits stops at the deadline; work that has begun is completed, so that a write that is answered
// OperationTimedOut may have happened, as on Azure.
// https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-blob-service-operations
func bounded(r *wire.Request, text string, do func() error) error {
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return wire.InvalidQuery("timeout", text, "Failed to parse timeout value.")
	}
	if seconds == 0 || seconds > maxTimeout {
		return do()
	}
	ctx, cancel := context.WithTimeout(r.HTTP.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	r.HTTP = r.HTTP.WithContext(ctx)
	err = do()
	var e *wire.Error
	if err != nil && !errors.As(err, &e) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return wire.ErrOperationTimedOut
	}
	return err
}
