package dashboard

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{"": "0001-01-01T00:00:00Z", "10m": "2026-03-02T00:20:00Z",
		"00:10": "2026-03-02T00:10:00Z", "23:50:01": "2026-03-01T23:50:01Z",
		"2026-01-01T02:00:00+01:00": "2026-01-01T01:00:00Z"} {
		if got, err := parseTime(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "25:00"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
