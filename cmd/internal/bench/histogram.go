package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// maxRecord is the largest latency that is counted as it is (about 18 minutes); longer ones count as this.
	maxRecord = time.Duration(1<<40 - 1)
	// significantDigits makes a recorded latency known to within 1/128 (0.8 %), in 35 KiB.
	significantDigits = 2
)

// Histogram counts latencies. The zero value is empty and ready to use. It is not safe for concurrent use: every worker
// has its own, merged afterwards.
type Histogram struct {
	counts *hdrhistogram.Histogram // nil if empty
	// The library computes mean and maximum from its buckets. These are exact.
	sum time.Duration
	max time.Duration
}

func (h *Histogram) allocate() {
	if h.counts == nil {
		h.counts = hdrhistogram.New(1, int64(maxRecord), significantDigits)
	}
}

// Record counts one latency; a negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	h.allocate()
	d = min(max(d, 0), maxRecord)
	if err := h.counts.RecordValue(int64(d)); err != nil {
		panic(err) // d is within the bounds.
	}
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	if o.counts == nil {
		return
	}
	h.allocate()
	h.counts.Merge(o.counts)
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns how many latencies were recorded.
func (h *Histogram) Count() uint64 {
	if h.counts == nil {
		return 0
	}
	return uint64(h.counts.TotalCount())
}

// Max returns the largest recorded latency.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean latency, 0 when empty.
func (h *Histogram) Mean() time.Duration {
	if h.counts == nil {
		return 0
	}
	return h.sum / time.Duration(h.Count())
}

// Quantile returns the latency at the share q (0..1) of the recorded ones, with the rank rounded to the nearest, 0 when
// empty. It errs upwards by less than 0.8 % and never exceeds Max.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.counts == nil {
		return 0
	}
	return min(time.Duration(h.counts.ValueAtQuantile(100*q)), h.max)
}
