package ncrontab

import (
	"testing"
	"time"
)

func TestTimeSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"00:00:02": 2 * time.Second, "01:30": 90 * time.Minute, "1.00:00:00": 24 * time.Hour, "3": 72 * time.Hour,
		"00:00:00.1": 100 * time.Millisecond, "00:00:00.0000001": 100, "-00:00:01": -time.Second,
		"23:59:59": 24*time.Hour - time.Second, "24:00:00": 24 * 24 * time.Hour, "25:01:30": 25*24*time.Hour + 90*time.Minute,
		"1.02:30": 26*time.Hour + 30*time.Minute, "1:2:3:4": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"1.2:3:4.5": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
	} {
		if got, err := ParseTimeSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "24:00", "00:60:00", "00:00:60", "1:24:3:4", "24:24:00", "24:00:00.5",
		"1:2:3:4:5", "00:00:00.", "00:00:00.12345678", "5s", "1.5",
		"--1", "9999999999", "::", "00:00:0x"} {
		if got, err := ParseTimeSpan(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
