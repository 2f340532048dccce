package state

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestCompactDue covers when extents are compacted: soon if much was freed, or if the disk is full and anything was.
func TestCompactDue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		freed int64
		full  bool
		after time.Duration
		want  int64
	}{
		{"little was freed", 1000, false, compactSoon, 0},
		{"little was freed, long ago", 1000, false, compactEvery + time.Second, 1},
		{"much was freed", compactFreed, false, compactSoon, 1},
		{"much was freed a moment ago", compactFreed, false, compactSoon / 2, 0},
		{"little was freed, and the disk is full", 1000, true, compactSoon, 1},
		{"little was freed a moment ago, and the disk is full", 1000, true, compactSoon / 2, 0},
		{"the disk is full, and nothing was freed", 0, true, compactSoon, 0},
	} {
		r := newRig(t, Policy{})
		check.OK(t, r.s.Maintenance.CompactDue(t.Context(), r.now, tc.full))
		r.s.freed.Add(tc.freed)
		check.OK(t, r.s.Maintenance.CompactDue(t.Context(), r.now.Add(tc.after), tc.full))
		if got := r.s.compactions.Load(); got != tc.want {
			t.Errorf("%s: %d compactions, want %d", tc.name, got, tc.want)
		}
	}
}
