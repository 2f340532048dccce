package copysource

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody returns n bytes after each pause.
type slowBody struct {
	n     int
	pause time.Duration
}

func (b slowBody) Read(p []byte) (int, error) {
	<-time.After(b.pause)
	return min(b.n, len(p)), nil
}

func (slowBody) Close() error { return nil }

// A source must send remoteUnit bytes within the timeout: one that sends a byte now and then is given up.
func TestSlowBodiesAreGivenUp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		body slowBody
		gone bool
	}{
		{"a byte a second", slowBody{1, time.Second}, true},
		{"nothing", slowBody{1, time.Hour}, true},
		{"almost enough", slowBody{remoteUnit / 31, time.Second}, true},
		{"enough", slowBody{remoteUnit/29 + 1, time.Second}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				begun := time.Now()
				var gone time.Duration
				r := newStallTimeoutReader(tc.body, remoteTimeout, func() {
					if gone == 0 {
						gone = time.Since(begun)
					}
					cancel()
				})
				p := make([]byte, 32<<10)
				for ctx.Err() == nil && time.Since(begun) < 5*time.Minute {
					if _, err := r.Read(p); err != nil {
						t.Fatal(err)
					}
				}
				if tc.gone && (gone == 0 || gone > remoteTimeout) || !tc.gone && gone > 0 {
					t.Errorf("given up after %v, want %v: %v", gone, remoteTimeout, tc.gone)
				}
			})
		})
	}
}
