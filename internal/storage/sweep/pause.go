package sweep

import (
	"context"
	"time"
)

// Rate is the maximum number of keys per second that [Pause] lets a caller remove. Removing ten million keys takes some
// minutes.
const Rate = 50_000

// Pause waits after a batch of n keys, which began at a time, so that removing keys leaves the disk and the processors
// to requests: batches take at most half of the time, and at most [Rate] keys per second are removed. It returns early
// when ctx is done.
func Pause(ctx context.Context, began time.Time, n int) {
	took := time.Since(began)
	timer := time.NewTimer(max(took, time.Duration(n)*time.Second/Rate-took))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
