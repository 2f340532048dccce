package ticks

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTicksAgreeWithTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := Ticks(rapid.Int64Range(0, int64(3_155_378_975_999_999_999)).Draw(t, "ticks"))
		at := n.Time()
		if Of(at) != n {
			t.Fatalf("%d became %d by way of %v", n, Of(at), at)
		}
		want := at.Format("2006-01-02T15:04:05.9999999Z")
		if got := n.String(); got != want {
			t.Fatalf("%d is written %s, want %s", n, got, want)
		}
		if back, ok := Parse(want); !ok || back != n {
			t.Fatalf("%s is read as %d, want %d", want, back, n)
		}
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"2026-11-21T04:05:06Z":             "2026-11-21T04:05:06Z",
		"2026-11-21T04:05:06.1234567Z":     "2026-11-21T04:05:06.1234567Z",
		"2026-11-21T04:05:06.12345678Z":    "2026-11-21T04:05:06.1234567Z",
		"2026-11-21T04:05:06.1200000Z":     "2026-11-21T04:05:06.12Z",
		"2026-11-21T04:05:06+02:00":        "2026-11-21T02:05:06Z",
		"2026-11-21T04:05:06.5-00:30":      "2026-11-21T04:35:06.5Z",
		"2026-11-21T04:05:06":              "2026-11-21T04:05:06Z",
		"2026-11-21T04:05Z":                "2026-11-21T04:05:00Z",
		"2026-11-21":                       "2026-11-21T00:00:00Z",
		"1601-01-01T00:00:00Z":             "1601-01-01T00:00:00Z",
		"9999-12-31T23:59:59.9999999Z":     "9999-12-31T23:59:59.9999999Z",
		"2024-02-29T00:00:00Z":             "2024-02-29T00:00:00Z",
		"2023-02-29T00:00:00Z":             "",
		"2026-13-01T00:00:00Z":             "",
		"2026-11-21T24:00:00Z":             "",
		"2026-11-21T04:05:06.Z":            "",
		"21 Nov 2026":                      "",
		"":                                 "",
		"2026-11-21T04:05:06.123456789abZ": "",
	} {
		got, ok := Parse(s)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %q", s, got, ok, want)
		}
	}
}

func TestDateTimeETag(t *testing.T) {
	t.Parallel()
	n := Of(time.Date(2017, 11, 10, 2, 46, 53, 636_692_000, time.UTC))
	if got, want := n.DateTimeETag(), `W/"datetime'2017-11-10T02%3A46%3A53.636692Z'"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Ticks of a damaged file have no date, and a text nevertheless.
func TestTextOfAnyTicks(t *testing.T) {
	t.Parallel()
	for _, n := range []Ticks{-1, math.MinInt64, math.MaxInt64} {
		if s := n.String(); len(s) < 20 || len(s) > 28 {
			t.Errorf("%d is written %q", n, s)
		}
	}
}
