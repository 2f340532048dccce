package trigger

import (
	"testing"
	"time"
)

// The rate is the mean of the last minute, also when clocks begin before 1970.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, start := range []time.Time{time.Unix(1_000_000, 0), time.Unix(-1_000_030, 0)} {
		var r rate
		for i := range 120 {
			r.add(start)
			r.add(start.Add(time.Duration(i) * time.Second / 4)) // up to half a minute later
		}
		for _, tc := range []struct {
			after time.Duration
			want  float64
		}{{30 * time.Second, 4}, {59 * time.Second, 4}, {60 * time.Second, 116.0 / 60}, {2 * time.Minute, 0}} {
			if got := r.perSecond(start.Add(tc.after)); got != tc.want {
				t.Errorf("from %v: %v per second after %v, want %v", start.Unix(), got, tc.after, tc.want)
			}
		}
	}
}
