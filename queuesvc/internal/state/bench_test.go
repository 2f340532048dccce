package state

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// fill puts n messages of 1 KiB.
func fill(b *testing.B, q *Queue, n int) {
	b.Helper()
	body := make([]byte, 1024)
	parallel(b, 256, n, func() {
		if _, err := q.Put(context.Background(), body, 0, time.Hour, time.Now()); err != nil {
			b.Error(err)
		}
	})
}

// parallel runs do n times, spread over callers.
func parallel(b *testing.B, callers, n int, do func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for left.Add(-1) >= 0 && !b.Failed() {
				do()
			}
		}()
	}
	wg.Wait()
}

// modes are the durabilities that are measured.
func modes(b *testing.B, run func(b *testing.B, c natsserver.Config)) {
	for _, mode := range []string{"durable", "relaxed"} {
		b.Run(mode, func(b *testing.B) {
			run(b, natsserver.Config{Dir: b.TempDir(), Relaxed: mode == "relaxed"})
		})
	}
}

func BenchmarkPut(b *testing.B) {
	modes(b, func(b *testing.B, c natsserver.Config) {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
				c.Dir = b.TempDir()
				q := create(b, open(b, startNATS(b, c)), "q")
				body := make([]byte, 1024)
				b.ResetTimer()
				parallel(b, callers, b.N, func() {
					if _, err := q.Put(context.Background(), body, 0, time.Hour, time.Now()); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			})
		}
	})
}

// BenchmarkCycle gets a message and deletes it; as many are put back outside of the clock's time.
func BenchmarkCycle(b *testing.B) {
	modes(b, func(b *testing.B, c natsserver.Config) {
		for _, depth := range []int{100, 1_000_000} {
			if depth > 100 && testing.Short() {
				continue
			}
			b.Run(fmt.Sprint(depth, "queued"), func(b *testing.B) {
				c.Dir = b.TempDir()
				q := create(b, open(b, startNATS(b, c)), "q")
				fill(b, q, depth)
				for _, callers := range []int{1, 32} {
					b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
						fill(b, q, b.N)
						b.ResetTimer()
						parallel(b, callers, b.N, func() {
							now := time.Now()
							m, err := q.Get(context.Background(), 1, time.Minute, now)
							if err != nil || len(m) != 1 {
								b.Errorf("got %d messages, %v", len(m), err)
								return
							}
							if err := q.Delete(context.Background(), m[0].ID, m[0].Receipt, now); err != nil {
								b.Error(err)
							}
						})
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
					})
				}
			})
		}
	})
}

// BenchmarkQueuedMemory measures what a queued message of 1 KiB costs the process, right after filling: all that is resident, and what
// is live in the heap. -benchtime 1000000x queues a million.
func BenchmarkQueuedMemory(b *testing.B) {
	defer gctuner.Default.Start()()
	q := create(b, open(b, startNATS(b, natsserver.Config{Dir: b.TempDir(), Relaxed: true})), "q")
	before := resident(b)
	b.ResetTimer()
	fill(b, q, b.N)
	b.StopTimer()
	b.ReportMetric(float64(resident(b)-before)/float64(b.N), "resident-B/message")
	var live runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&live)
	b.ReportMetric(float64(live.HeapAlloc)/float64(b.N), "live-B/message")
}

// resident returns the process's resident memory in bytes.
func resident(b *testing.B) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// BenchmarkIndexMemory measures what a queued message costs in the index.
func BenchmarkIndexMemory(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := newIndex()
	now := time.Now()
	for i := range b.N {
		x.apply(slot(i), uint64(i+1), 1024, &State{NextVisible: now.UnixNano()})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/message")
	runtime.KeepAlive(x)
}
