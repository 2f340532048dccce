package wire

import (
	"testing"
	"time"
)

// What was read last is kept; neither another date nor a broken one may be answered with it.
func TestParseRFC1123(t *testing.T) {
	t.Parallel()
	first := time.Date(2015, 6, 26, 23, 39, 12, 0, time.UTC)
	for _, tt := range []struct {
		in   string
		want time.Time
	}{
		{"Fri, 26 Jun 2015 23:39:12 GMT", first},
		{"Fri, 26 Jun 2015 23:39:12 GMT", first},
		{"Fri, 26 Jun 2015 23:39:13 GMT", first.Add(time.Second)},
		{"Fri, 26 Jun 2015 23:39:12 GMT", first},
		{"Friday, 26-Jun-15 23:39:12 GMT", first},
		{"Fri Jun 26 23:39:12 2015", first},
		{"Fri, 26 Jun 2015 23:39:12", first},
		{"26 Jun 2015 23:39:12 GMT", first},
		{"Fri, 26 Jun 15 23:39:12 GMT", first},
		{"Fri, 26 Jun 2015 23:39:12 +0000", first},
		{"Sat, 27 Jun 2015 01:39:12 +0200", first},
		{"Sat, 27 Jun 2015 1:39:12 GMT", first.Add(2 * time.Hour)},
		{"Fri, 5 Jun 2015 23:39:12 GMT", first.AddDate(0, 0, -21)},
	} {
		got, err := ParseRFC1123(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseRFC1123(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "yesterday", "Fri, 26 Jun 2015 23:39:12 XYZ", "Fri, 36 Jun 2015 23:39:12 GMT",
		"2015-06-26T23:39:12Z", "Fri, 26 Jun 2015 25:39:12 GMT"} {
		for range 2 {
			if got, err := ParseRFC1123(bad); err == nil {
				t.Errorf("ParseRFC1123(%q) = %v, want an error", bad, got)
			}
		}
	}
}

func BenchmarkParseRFC1123(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRFC1123("Fri, 26 Jun 2015 23:39:12 GMT"); err != nil {
			b.Fatal(err)
		}
	}
}
