package console

import (
	"testing"
	"time"
)

func TestClockText(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	for want, at := range map[string]time.Time{
		"-":                    {},
		"2026-11-29T05:00:00Z": time.Date(2026, 11, 29, 6, 0, 0, 5, berlin),
	} {
		if got := ClockText(at); got != want {
			t.Errorf("%v: got %q, want %q", at, got, want)
		}
	}
}
