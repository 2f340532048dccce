package blobsvc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Removing a large container lets the other background work go first, and continues in another round.
func TestRemovalIsLimitedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &background{wake: make(chan struct{}, 1)}
		began := time.Now()
		err := b.remove(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if took := time.Since(began); err != nil || took != maxRemoval || len(b.wake) != 1 {
			t.Errorf("%v after %v, %d rounds follow", err, took, len(b.wake))
		}
		<-b.wake
		failed := errors.New("failed")
		if err := b.remove(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) ||
			len(b.wake) != 0 {
			t.Errorf("%v, %d rounds follow", err, len(b.wake))
		}
	})
}
