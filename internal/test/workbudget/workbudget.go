package workbudget

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Budget is the limit for parsing: a fixed part and a part for each byte of the input.
type Budget struct {
	// Time is processor time, not wall time: other load of the machine does not count.
	Time, TimePerByte time.Duration
	// Bytes are the allocated bytes, including those freed meanwhile.
	Bytes, BytesPerByte int64
}

// Default fits the parsers of requests: they use some 10 ns and some 10 allocated bytes per byte of input. It is far
// above that, for slow machines and instrumented builds, and far below the use of a quadratic parser for the sizes of
// [Inputs].
var Default = Budget{Time: 100 * time.Millisecond, TimePerByte: 2 * time.Microsecond, Bytes: 1 << 20,
	BytesPerByte: 1000}

// Check runs parse, which processes size bytes of input, and fails the test if it exceeds the budget. parse must run in
// the calling goroutine. Allocations of other goroutines count as well: tests that use it must not be parallel.
func (b Budget) Check(t testing.TB, size int, parse func()) {
	t.Helper()
	defer b.Start(t, size)()
	parse()
}

// Start is like [Budget.Check] for the code that runs until the returned function is called.
func (b Budget) Start(t testing.TB, size int) (done func()) {
	t.Helper()
	runtime.LockOSThread()
	allocated, used := allocatedBytes(), processorTime()
	return func() {
		t.Helper()
		defer runtime.UnlockOSThread()
		used, allocated := processorTime()-used, allocatedBytes()-allocated
		if limit := b.Time + time.Duration(size)*b.TimePerByte; used > limit {
			t.Errorf("%d bytes of input take %v of processor time, more than %v", size, used, limit)
		}
		if limit := b.Bytes + int64(size)*b.BytesPerByte; allocated > limit {
			t.Errorf("%d bytes of input allocate %d bytes, more than %d", size, allocated, limit)
		}
	}
}

func allocatedBytes() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Inputs calls check with inputs of size bytes that have found quadratic work in parsers: a repeated piece of the
// grammar between the beginning and the end of a valid input.
func Inputs(size int, begin string, pieces []string, end string, check func(input string)) {
	for _, piece := range pieces {
		n := max(0, size-len(begin)-len(end)) / len(piece)
		check(begin + strings.Repeat(piece, n) + end)
	}
}
