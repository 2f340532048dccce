package ncrontab

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
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
		// The names are those of NCrontab: any beginning, the first that fits; its ranges turn round.
		{"0 30 9 * January Monday", from, "2027-01-04 09:30:00 Mon"},
		{"0 30 9 * * Sunday", from, "2026-11-22 09:30:00 Sun"},
		{"0 30 9 * * Mo,Tues", from, "2026-11-23 09:30:00 Mon"},
		{"0 30 9 * ju *", from, "2027-06-01 09:30:00 Tue"},
		{"0 0 0 * m *", from, "2027-03-01 00:00:00 Mon"},
		{"0 0 0 * * Fri-Mon", from, "2026-11-23 00:00:00 Mon"}, // Monday to Friday.
		{"0 0 22-4 * * *", from, "2026-11-21 06:00:00 Sat"},    // 4 to 22.
		{"0 0 22-4/6 * * *", from, "2026-11-21 10:00:00 Sat"},
		{"*/90 * * * * *", from, "2026-11-21 05:18:00 Sat"},
		{"*/0 * * * * *", from, "2026-11-21 05:17:31 Sat"},
		{"*/-5 * * * * *", from, "2026-11-21 05:17:31 Sat"},
		{"24:00:00", from, "2026-12-15 05:17:30 Tue"}, // A TimeSpan of 24 days.
		{"01:30", from, "2026-11-21 06:47:30 Sat"},
		{"2", from, "2026-11-23 05:17:30 Mon"},
		{"0 0 0 30 2 *", from, "0001-01-01 00:00:00 Mon"}, // Never.
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
	if got, want := s.Next(time.Date(2026, 1, 1, 14, 59, 59, 999, east)),
		time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := s.Next(time.Date(2026, 1, 1, 12, 0, 0, 1, time.UTC)),
		time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
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
		"*/x * * * * *":     "step",
		"1, * * * * *":      "second",
		"hourly":            "interval",
		"00:60:00":          "interval",
		"24:24:00":          "interval",
		"00:00:00.5":        "interval",
		"* * * * Mayy *":    "month",
		"* * * * * -":       "day of week",
		"* * Mo * * *":      "hour",
		"00:00:00":          "interval",
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
		defer workbudget.Default.Start(t, len(text))()
		s, err := Parse(text)
		if err != nil {
			return
		}
		now := time.Date(2026, 11, 21, 5, 17, 30, 0, time.UTC)
		for range 3 {
			next := s.Next(now)
			if next.IsZero() {
				return // Never.
			}
			if !next.After(now) {
				t.Fatalf("%q after %v comes at %v", text, now, next)
			}
			now = next
		}
	})
}

// Schedules with a time zone, around the changes of clocks in Berlin on 2026-03-29 (2:00 to 3:00) and 2026-10-25 (3:00
// to 2:00).
func TestNextInATimeZone(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, schedule, after string
		want                  []string
	}{
		{"winter", "0 30 9 * * *", "2026-01-01T00:00:00Z", []string{"2026-01-01T08:30:00Z", "2026-01-02T08:30:00Z"}},
		{"summer", "0 30 9 * * MON", "2026-07-01T00:00:00Z", []string{"2026-07-06T07:30:00Z", "2026-07-13T07:30:00Z"}},
		{"day by local time", "0 0 0 1 * *", "2026-06-15T00:00:00Z",
			[]string{"2026-06-30T22:00:00Z", "2026-07-31T22:00:00Z"}},
		{"a time that is left out", "0 30 2 * * *", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		{"a time that comes twice", "0 30 2 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"every hour", "0 0 * * * *", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"interval", "01:00:00", "2026-03-29T00:30:00Z", []string{"2026-03-29T01:30:00Z"}},
	} {
		s, err := Parse(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if at = s.In(berlin).Next(at); at.Format(time.RFC3339) != want {
				t.Errorf("%s: %s comes at %s, want %s", c.name, c.schedule, at.Format(time.RFC3339), want)
			}
		}
	}
}

// In every zone, the next time is after the last one and comes to an end.
func TestNextGoesForwardInEveryTimeZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe", "Africa/Cairo",
		"America/Havana", "Asia/Kathmandu", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"0 0 0 * * *", "0 */20 * * * *", "0 15 1,2,23 * * *"} {
			s, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)
			runs := 0
			for end := at.AddDate(2, 0, 0); at.Before(end); runs++ {
				next := s.In(zone).Next(at)
				if !next.After(at) || next.Sub(at) > 50*time.Hour {
					t.Fatalf("%s in %s: after %v comes %v", text, name, at, next)
				}
				at = next
			}
			if text == "0 0 0 * * *" && (runs < 729 || runs > 732) {
				t.Errorf("%s in %s: %d runs in two years", text, name, runs)
			}
		}
	}
}
