package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// fakeCounters answers each read with value, and accepts each write.
type fakeCounters struct {
	value int64
	err   error
}

func (f *fakeCounters) get(context.Context, int, int) (int64, azcore.ETag, error) {
	return f.value, "etag", f.err
}

func (f *fakeCounters) set(context.Context, int, int, int64, azcore.ETag) error { return nil }

// TestHistoryOfCounters gives the checker histories in which a promise is broken, and right ones.
func TestHistoryOfCounters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(c *sharedCounters, f *fakeCounters)
		want Kind // "" if nothing is wrong
	}{
		{"read what was written", func(c *sharedCounters, f *fakeCounters) {
			c.write(t.Context(), 0, 1, 5, "etag")
			f.value = 5
			c.read(t.Context(), 1, 1)
		}, ""},
		{"read more than what was acknowledged", func(c *sharedCounters, f *fakeCounters) {
			f.value = 7
			c.read(t.Context(), 1, 1)
		}, ""},
		{"read less than what was acknowledged", func(c *sharedCounters, f *fakeCounters) {
			c.write(t.Context(), 0, 1, 5, "etag")
			f.value = 4
			c.read(t.Context(), 1, 1)
		}, Stale},
		{"read less than what was read", func(c *sharedCounters, f *fakeCounters) {
			f.value = 5
			c.read(t.Context(), 0, 1)
			f.value = 4
			c.read(t.Context(), 1, 1)
		}, Stale},
		{"written twice on one condition", func(c *sharedCounters, _ *fakeCounters) {
			c.write(t.Context(), 0, 1, 5, "etag")
			c.write(t.Context(), 1, 1, 5, "etag")
		}, Doubled},
		{"content that was never written", func(c *sharedCounters, f *fakeCounters) {
			f.err = errOtherBytes
			c.read(t.Context(), 0, 1)
		}, Wrong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeCounters{}
			c := newSharedCounters(f, "counter", 2, time.Millisecond)
			tc.do(c, f)
			var got Kind
			if len(c.findings) > 0 {
				got = c.findings[0].Kind
			}
			if got != tc.want || len(c.findings) > 1 {
				t.Errorf("found %v, want %q", c.findings, tc.want)
			}
		})
	}
}
