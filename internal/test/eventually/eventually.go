// Package eventually waits in tests for what other goroutines do.
package eventually

import (
	"fmt"
	"testing"
	"time"
)

// Limit is how long a test waits before it fails: long enough for the slowest machine, since it only shows in failures.
const Limit = 2 * time.Minute

// True waits until the condition is true. It fails the test after [Limit], with what was expected as fmt.Sprintf formats it.
func True(t testing.TB, condition func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(Limit)
	for pause := 100 * time.Microsecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", Limit, fmt.Sprintf(format, args...))
		}
		time.Sleep(pause)
	}
}
