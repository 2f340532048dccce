package maintain

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
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
		dir := t.TempDir()
		node := check.Must(replica.Open(replica.Config{Path: filepath.Join(dir, "blobs.db"),
			Extents: filepath.Join(dir, "extents"), Store: store.Options{Ephemeral: true}}))(t)
		s, now := New(node, nil), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		check.OK(t, s.CompactDue(t.Context(), now, tc.full, true))
		node.Freed.Add(tc.freed)
		check.OK(t, s.CompactDue(t.Context(), now.Add(tc.after), tc.full, true))
		check.OK(t, node.Close())
		if got := s.compactions.Load(); got != tc.want {
			t.Errorf("%s: %d compactions, want %d", tc.name, got, tc.want)
		}
	}
}
