package frontend

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// maxTimeout is the largest timeout in seconds; what is beyond counts as no bound.
const maxTimeout = 24 * 60 * 60

// bounded calls do within the time that text, the request's timeout parameter, gives, in whole seconds; 0 and none are no bound. What
// waits gives up then; what is already being done is done, so that a write that is answered OperationTimedOut may have
// happened, as on Azure.
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
