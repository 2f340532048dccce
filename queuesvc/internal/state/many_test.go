package state

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// BenchmarkIdleQueues measures what a queue costs that nobody uses: memory, goroutines, and time at start. One that has
// had a message has a stream.
func BenchmarkIdleQueues(b *testing.B) {
	b.Run("never used", func(b *testing.B) { idleQueues(b, false) })
	b.Run("used once", func(b *testing.B) { idleQueues(b, true) })
}

func idleQueues(b *testing.B, used bool) {
	dir := b.TempDir()
	n := startNATS(b, natsserver.Config{Dir: dir, Relaxed: true})
	s := open(b, n)
	for i := range b.N {
		q := create(b, s, fmt.Sprint("idle-", i))
		if used {
			putOne(b, q, "x", epoch)
		}
	}
	s.Close()
	n.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	began := time.Now()
	n = startNATS(b, natsserver.Config{Dir: dir, Relaxed: true})
	open(b, n)
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(b.N), "µs-start/queue")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(b.N), "B/queue")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(b.N), "goroutines/queue")
}
