package sweep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		took, want time.Duration
		n          int
	}{
		{took: 0, n: Rate / 10, want: 100 * time.Millisecond},
		{took: 40 * time.Millisecond, n: Rate / 10, want: 60 * time.Millisecond},
		{took: 80 * time.Millisecond, n: Rate / 10, want: 80 * time.Millisecond}, // half of the time
		{took: time.Second, n: 1, want: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			time.Sleep(tc.took)
			before := time.Now()
			Pause(t.Context(), began, tc.n)
			if got := time.Since(before); got != tc.want {
				t.Errorf("a batch of %d keys that took %v: pause of %v, want %v", tc.n, tc.took, got, tc.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		Pause(ctx, began, Rate)
		if got := time.Since(began); got != 0 {
			t.Errorf("paused for %v after the context was done", got)
		}
	})
}
