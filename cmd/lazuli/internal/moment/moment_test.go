package moment

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Times as people write them; the ID of a request is refused with the way to its time.
func TestParse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-12-01T09:00:00.5Z":    now.Add(-time.Hour + 500*time.Millisecond),
		"2026-12-01T10:00:00+01:00": now.Add(-time.Hour),
		"10 minutes ago":            now.Add(-10 * time.Minute),
		"1 hour ago":                now.Add(-time.Hour),
		"90s ago":                   now.Add(-90 * time.Second),
		"90s":                       now.Add(-90 * time.Second),
	} {
		if got := check.Must(parse(text, now))(t); !got.Equal(want) {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "yesterday", "10 fortnights ago", "0c5a4e4e-0f2e-4d53-9d0f-3f6f4d1a0a11"} {
		if at, err := parse(text, now); err == nil {
			t.Errorf("%q is %v", text, at)
		}
	}
}
