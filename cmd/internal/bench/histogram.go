package bench

import (
	"math/bits"
	"time"
)

const (
	// maxRecord is the largest latency that is counted as it is (about 18 minutes); longer ones count as this.
	maxRecord = time.Duration(1<<40 - 1)
	// exact latencies have a counter each. Longer ones share one with those that are equal in their first eight bits: a
	// recorded latency is known to within 1/128 (0.8 %), in 35 KiB.
	exact    = 256
	counters = exact + (40-8)*exact/2
)

// Histogram counts latencies. The zero value is empty and ready to use. It is not safe for concurrent use: every worker
// has its own, merged afterwards.
type Histogram struct {
	counts *[counters]uint64 // nil if empty
	count  uint64
	sum    time.Duration
	max    time.Duration
}

// counterOf returns the counter of a latency, 0 to maxRecord.
func counterOf(d time.Duration) int {
	if d < exact {
		return int(d)
	}
	shift := bits.Len64(uint64(d)) - 8
	return shift*exact/2 + int(d>>shift)
}

// longest returns the longest latency that a counter counts.
func longest(counter int) time.Duration {
	if counter < exact {
		return time.Duration(counter)
	}
	shift := counter/(exact/2) - 1
	return time.Duration(counter-shift*exact/2+1)<<shift - 1
}

// Record counts one latency; a negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	if h.counts == nil {
		h.counts = new([counters]uint64)
	}
	d = min(max(d, 0), maxRecord)
	h.counts[counterOf(d)]++
	h.count++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	if o.counts == nil {
		return
	}
	if h.counts == nil {
		h.counts = new([counters]uint64)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns how many latencies were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the largest recorded latency.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean latency, 0 when empty.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Quantile returns the latency at the share q (0..1) of the recorded ones, with the rank rounded to the nearest, 0 when
// empty. It errs upwards by less than 0.8 % and never exceeds Max.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.count)+.5), 1)
	for i, n := range h.counts {
		if n >= rank {
			return min(longest(i), h.max)
		}
		rank -= n
	}
	return h.max
}
