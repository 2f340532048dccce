package schedulerow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
)

func TestOccurrences(t *testing.T) {
	t.Parallel()
	const layout = "2006-01-02 15:04:05"
	at := func(text string) time.Time {
		v, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		expression, next, now string
		policy                string
		most                  int
		due                   []string
		after                 string
	}{
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-01 09:59:59", Once, 1, nil, "2026-01-01 10:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-01 10:00:00", Once, 1,
			[]string{"2026-01-01 10:00:00"}, "2026-01-01 11:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-02 09:30:00", Once, 1,
			[]string{"2026-01-02 09:00:00"}, "2026-01-02 10:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-02 09:30:00", Skip, 1, nil, "2026-01-02 10:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-02 09:01:00", Skip, 1,
			[]string{"2026-01-02 09:00:00"}, "2026-01-02 10:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-01 12:30:00", All, 10,
			[]string{"2026-01-01 10:00:00", "2026-01-01 11:00:00", "2026-01-01 12:00:00"}, "2026-01-01 13:00:00"},
		{"0 0 * * * *", "2026-01-01 10:00:00", "2026-01-01 12:30:00", All, 2,
			[]string{"2026-01-01 11:00:00", "2026-01-01 12:00:00"}, "2026-01-01 13:00:00"},
		// Two months of seconds are not counted one by one.
		{"* * * * 1 *", "2026-01-01 00:00:00", "2026-03-01 00:00:00", All, 2,
			[]string{"2026-01-31 23:59:58", "2026-01-31 23:59:59"}, "2027-01-01 00:00:00"},
		// An interval keeps its phase.
		{"00:00:07", "2026-01-01 00:00:03", "2026-01-01 00:00:30", All, 2,
			[]string{"2026-01-01 00:00:17", "2026-01-01 00:00:24"}, "2026-01-01 00:00:31"},
		{"00:00:01", "2016-01-01 00:00:00", "2026-01-01 00:00:00", Once, 1,
			[]string{"2026-01-01 00:00:00"}, "2026-01-01 00:00:01"},
	} {
		times, err := ncrontab.Parse(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		due, after := Occurrences(times, at(c.next), at(c.now), c.policy, c.most)
		var got []string
		for _, d := range due {
			got = append(got, d.Format(layout))
		}
		if !slices.Equal(got, c.due) || after.Format(layout) != c.after {
			t.Errorf("%+v: got %v, then %v", c, got, after.Format(layout))
		}
	}
}

func TestScheduledText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for body, want := range map[string]string{
		`{}`:                     `{"schedule":"s","scheduledTime":"2026-01-02T02:04:05Z"}`,
		` { "a" : {"b": 1} } `:   `{"schedule":"s","scheduledTime":"2026-01-02T02:04:05Z","a" : {"b": 1} }`,
		`{"schedule": 1}`:        `{"schedule": 1}`,
		`{"scheduledTime":null}`: `{"scheduledTime":null}`,
		`{broken`:                `{broken`,
		`[1]`:                    `[1]`,
		`plain`:                  `plain`,
	} {
		r := Row{Name: "s", Body: []byte(body), Encoding: NoEncoding}
		if got := r.Text(at); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := fmt.Sprint((&Row{Body: []byte("a"), Encoding: Base64}).Text(at)); got != "YQ==" {
		t.Error(got)
	}
}
