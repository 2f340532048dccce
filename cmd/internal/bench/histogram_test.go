package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile errs upwards, by at most 0.8 %.
func TestHistogramPrecision(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := time.Duration(rapid.Int64Range(0, int64(maxRecord)).Draw(t, "v"))
		var h Histogram
		h.Record(v)
		h.Record(maxRecord)
		if got := h.Quantile(.5); got < v || float64(got-v) > float64(v)/128 {
			t.Fatalf("the lower of %d and the largest latency is %d", v, got)
		}
	})
}

func TestHistogramQuantile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{"empty", nil, .5, 0},
		{"one", []time.Duration{100}, .5, 100},
		{"the median of two is the lower", []time.Duration{10, 20}, .5, 10},
		{"the rank is rounded to the nearest", []time.Duration{10, 20}, .8, 20},
		{"p99 of a hundred is the 99th", hundred(), .99, 99},
		{"p0 is the smallest", hundred(), 0, 1},
		{"p100 is the largest", hundred(), 1, 100},
		{"never above the largest", []time.Duration{1_000_000_001}, .99, 1_000_000_001},
		{"negative counts as zero", []time.Duration{-5}, .5, 0},
		{"too long counts as the longest", []time.Duration{time.Hour}, .5, maxRecord},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h Histogram
			for _, v := range tt.values {
				h.Record(v)
			}
			if got := h.Quantile(tt.q); got != tt.want {
				t.Errorf("Quantile(%v) of %v = %v, want %v", tt.q, tt.values, got, tt.want)
			}
		})
	}
}

func hundred() []time.Duration {
	out := make([]time.Duration, 100)
	for i := range out {
		out[i] = time.Duration(100 - i)
	}
	return out
}

// Merged histograms answer like one that saw everything, and within 0.8 % of the exact quantile.
func TestHistogramMerge(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var parts [4]Histogram
	var all []time.Duration
	for range 10_000 {
		v := time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		parts[rng.IntN(len(parts))].Record(v)
		all = append(all, v)
	}
	var h Histogram
	for i := range parts {
		h.Merge(&parts[i])
	}
	slices.Sort(all)
	for _, q := range []float64{.1, .5, .9, .99, .999} {
		exact := all[int(q*float64(len(all)))-1]
		if got := h.Quantile(q); got < exact || float64(got-exact) > .008*float64(exact) {
			t.Errorf("Quantile(%v) = %v, want %v up to 0.8 %% more", q, got, exact)
		}
	}
	if h.Count() != 10_000 || h.Max() != all[len(all)-1] {
		t.Errorf("Count = %d, Max = %v; want 10000, %v", h.Count(), h.Max(), all[len(all)-1])
	}
}
