package ncrontab

import (
	"strings"
	"testing"
	"time"
)

const layout = "2006-01-02 15:04:05 Mon"

// The examples of the documentation of Azure Functions' timer, and the corners.
func TestNext(t *testing.T) {
	from := "2026-11-21 05:17:30 Sat"
	for _, c := range []struct{ schedule, from, want string }{
		{"0 */5 * * * *", from, "2026-11-21 05:20:00 Sat"},
		{"0 0 * * * *", from, "2026-11-21 06:00:00 Sat"},
		{"0 0 */2 * * *", from, "2026-11-21 06:00:00 Sat"},
		{"0 0 9-17 * * *", from, "2026-11-21 09:00:00 Sat"},
		{"0 30 9 * * *", from, "2026-11-21 09:30:00 Sat"},
		{"0 30 9 * * 1-5", from, "2026-11-23 09:30:00 Mon"},
		{"0 30 9 * * mon-FRI", from, "2026-11-23 09:30:00 Mon"},
		{"0 30 9 * Jan Mon", from, "2027-01-04 09:30:00 Mon"},
		{"0 0 0 1 JAN,JUL *", from, "2027-01-01 00:00:00 Fri"},
		{"*/10 * * * * *", from, "2026-11-21 05:17:40 Sat"},
		{"5/20 * * * * *", from, "2026-11-21 05:17:45 Sat"},
		{"10-20/5,50 * * * * *", from, "2026-11-21 05:17:50 Sat"},
		{"59 59 23 31 12 *", from, "2026-12-31 23:59:59 Thu"},
		{"*/5 * * * *", from, "2026-11-21 05:20:00 Sat"},
		{"* * * * * *", from, "2026-11-21 05:17:31 Sat"},
		{"0 0 0 29 2 *", from, "2028-02-29 00:00:00 Tue"},
		{"0 0 0 29 2 1", from, "2044-02-29 00:00:00 Mon"},
		// Both day and day of week must match: the first Friday the 13th, not the next Friday.
		{"0 0 0 13 * 5", from, "2027-08-13 00:00:00 Fri"},
		// The time itself does not count.
		{"30 17 5 * * *", from, "2026-11-22 05:17:30 Sun"},
		{"00:00:30", from, "2026-11-21 05:18:00 Sat"},
		{"01:30:00", from, "2026-11-21 06:47:30 Sat"},
		{"1.00:00:00", from, "2026-11-22 05:17:30 Sun"},
	} {
		s, err := Parse(c.schedule)
		if err != nil {
			t.Error(err)
			continue
		}
		start, err := time.Parse(layout, c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(start).Format(layout); got != c.want {
			t.Errorf("%q after %s comes at %s, want %s", c.schedule, c.from, got, c.want)
		}
	}
}

func TestNextIsInUTCAndAfterFractions(t *testing.T) {
	s, err := Parse("0 0 12 * * *")
	if err != nil {
		t.Fatal(err)
	}
	east := time.FixedZone("east", 3*3600)
	if got, want := s.Next(time.Date(2026, 1, 1, 14, 59, 59, 999, east)), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := s.Next(time.Date(2026, 1, 1, 12, 0, 0, 1, time.UTC)), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for schedule, says := range map[string]string{
		"":                  "0 fields",
		"* * * *":           "4 fields",
		"* * * * * * *":     "7 fields",
		"60 * * * * *":      "second",
		"* 60 * * * *":      "minute",
		"* * 24 * * *":      "hour",
		"* * * 0 * *":       "day",
		"* * * * 13 *":      "month",
		"* * * * * 7":       "day of week",
		"* * * * * FOO":     "day of week",
		"-1 * * * * *":      "second",
		"+1 * * * * *":      "second",
		"5-1 * * * * *":     "ends before it begins",
		"*/0 * * * * *":     "step",
		"*/x * * * * *":     "step",
		"1, * * * * *":      "second",
		"0 0 0 30 2 *":      "no such day",
		"hourly":            "interval",
		"00:60:00":          "interval",
		"00:00:00":          "interval",
		"24:00:00":          "interval",
		"99999999.00:00:00": "interval",
	} {
		if _, err := Parse(schedule); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error saying %q", schedule, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 */5 9-17 1,15 JAN-JUN MON")
	f.Add("1.02:03:04")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		now := time.Date(2026, 11, 21, 5, 17, 30, 0, time.UTC)
		for range 3 {
			next := s.Next(now)
			if !next.After(now) {
				t.Fatalf("%q after %v comes at %v", text, now, next)
			}
			now = next
		}
	})
}
