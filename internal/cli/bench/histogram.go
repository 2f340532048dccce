package bench

import (
	"math/bits"
	"time"
)

// The histogram is log-linear: every power of two is cut into subBuckets equal parts, so a recorded value is known to
// within 1/128 (0.8 %) whatever its size.
const (
	subBits    = 7
	subBuckets = 1 << subBits
	// maxRecord is the largest distinguishable latency (about 18 minutes); longer ones count as this.
	maxRecord   = time.Duration(1<<40 - 1)
	bucketCount = (40 - subBits + 1) * subBuckets
)

// Histogram counts latencies. The zero value is empty and ready to use. It is not safe for concurrent use: every worker
// has its own, merged afterwards.
type Histogram struct {
	counts [bucketCount]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// bucketOf returns the index of the bucket that holds v, 0 ≤ v ≤ maxRecord.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	exp := bits.Len64(v) - subBits - 1
	return exp<<subBits + int(v>>exp)
}

// bucketTop returns the largest value that falls into bucket i.
func bucketTop(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	exp := i>>subBits - 1
	mantissa := uint64(i - exp<<subBits)
	return (mantissa+1)<<exp - 1
}

// Record counts one latency; a negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = min(max(d, 0), maxRecord)
	h.counts[bucketOf(uint64(d))]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns how many latencies were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the largest recorded latency.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean latency, 0 when empty.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile returns the smallest bucket bound that at least the share q (0..1) of the recorded latencies does not exceed,
// 0 when empty. It errs upwards by less than 0.8 % and never exceeds Max.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	if float64(rank) < q*float64(h.n) || rank == 0 {
		rank++
	}
	var seen uint64
	for i, c := range h.counts {
		seen += c
		if seen >= rank {
			return min(time.Duration(bucketTop(i)), h.max)
		}
	}
	return h.max
}
