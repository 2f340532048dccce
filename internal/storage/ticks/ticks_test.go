package ticks

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTicksKeepTimesTo100ns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := time.Unix(rapid.Int64Range(-62_135_596_800, 253_402_300_799).Draw(t, "seconds"),
			100*rapid.Int64Range(0, Second-1).Draw(t, "fraction")).UTC()
		if got := Of(want.Add(99)).Time(); !got.Equal(want) {
			t.Errorf("Of(%v + 99 ns).Time() = %v", want, got)
		}
		if want.Year() >= 1601 {
			if got, ok := ParseISO(Of(want).ISO()); !ok || got != Of(want) {
				t.Errorf("ParseISO(%s) = %s, %v", Of(want).ISO(), got.ISO(), ok)
			}
		}
		if got, want := Of(want).RFC1123(), want.Format("Mon, 02 Jan 2006 15:04:05 GMT"); got != want {
			t.Errorf("RFC1123() = %s, want %s", got, want)
		}
	})
}

func TestZeroTicksAreTheZeroTime(t *testing.T) {
	t.Parallel()
	if got := Of(time.Time{}); got != 0 {
		t.Errorf("Of(zero) = %d", got)
	}
	if got := Ticks(0).Time(); !got.IsZero() {
		t.Errorf("Ticks(0).Time() = %v", got)
	}
}

func TestETagIsHexadecimal(t *testing.T) {
	t.Parallel()
	for want, at := range map[string]Ticks{`"0x0"`: 0, `"0x1F"`: 31, `"0x8D27E5B1E2A4000"`: 0x8D27E5B1E2A4000} {
		if got := at.QuotedHexETag(); got != want {
			t.Errorf("QuotedHexETag(%d) = %s, want %s", at, got, want)
		}
	}
}

func TestParseISORefusesOtherForms(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "Z", "2015-06-26", "2015-06-26T23:39:12.12345678Z", "1600-06-26T23:39:12Z",
		"2015-06-26T23:39:12+01:00"} {
		if got, ok := ParseISO(s); ok {
			t.Errorf("ParseISO(%q) = %s", s, got.ISO())
		}
	}
}

func TestSourceNeverRepeats(t *testing.T) {
	t.Parallel()
	const workers, each = 4, 500
	var (
		s    Source
		wg   sync.WaitGroup
		got  [workers][]Ticks
		now  = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
		seen = make(map[Ticks]int)
	)
	for i := range workers {
		wg.Go(func() {
			for range each {
				got[i] = append(got[i], s.Next(now))
			}
		})
	}
	wg.Wait()
	for _, list := range got {
		for i, at := range list {
			seen[at]++
			if i > 0 && at <= list[i-1] {
				t.Fatalf("%d follows %d", at, list[i-1])
			}
		}
	}
	if diff := cmp.Diff(workers*each, len(seen)); diff != "" {
		t.Errorf("number of different ticks (-want +got):\n%s", diff)
	}
	if back := s.Next(now.Add(-time.Hour)); back <= got[0][0] {
		t.Errorf("the clock went back, and so did the ticks: %d", back)
	}
}
