package queue

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// enqueue puts n messages of 1 KiB.
func enqueue(b *testing.B, q *Queue, n int) {
	b.Helper()
	body := make([]byte, 1024)
	parallel(b, 256, n, func(int64) {
		if _, err := q.Put(body, 0, time.Hour, time.Now()); err != nil {
			b.Error(err)
		}
	})
}

// parallel runs do n times, spread over callers, each time with another number.
func parallel(b *testing.B, callers, n int, do func(i int64)) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := left.Add(-1); i >= 0 && !b.Failed(); i = left.Add(-1) {
				do(i)
			}
		})
	}
	wg.Wait()
}

// modes runs a benchmark with each durability.
func modes(b *testing.B, run func(b *testing.B, relaxed bool)) {
	for _, mode := range []string{"durable", "relaxed"} {
		b.Run(mode, func(b *testing.B) { run(b, mode == "relaxed") })
	}
}

func benchStore(b *testing.B, relaxed bool) *Store {
	return open(b, startNATS(b, natsserver.Config{Dir: b.TempDir(), Relaxed: relaxed}))
}

func BenchmarkPut(b *testing.B) {
	modes(b, func(b *testing.B, relaxed bool) {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
				q := create(b, benchStore(b, relaxed), "q")
				body := make([]byte, 1024)
				b.ResetTimer()
				parallel(b, callers, b.N, func(int64) {
					if _, err := q.Put(body, 0, time.Hour, time.Now()); err != nil {
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
	modes(b, func(b *testing.B, relaxed bool) {
		for _, depth := range []int{100, 1_000_000} {
			if depth > 100 && testing.Short() {
				continue
			}
			b.Run(fmt.Sprint(depth, "queued"), func(b *testing.B) {
				q := create(b, benchStore(b, relaxed), "q")
				enqueue(b, q, depth)
				for _, callers := range []int{1, 32} {
					b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
						enqueue(b, q, b.N)
						b.ResetTimer()
						parallel(b, callers, b.N, func(int64) {
							now := time.Now()
							m, err := q.Get(1, time.Minute, now)
							if err != nil || len(m) != 1 {
								b.Errorf("got %d messages, %v", len(m), err)
								return
							}
							if err := q.Delete(m[0].ID, m[0].Receipt, now); err != nil {
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

// BenchmarkQueues creates a queue and puts a message of 100 bytes into it; at the end it closes the store and opens it
// again. -benchtime 10000x makes 10,000 queues.
func BenchmarkQueues(b *testing.B) {
	n := startNATS(b, natsserver.Config{Dir: b.TempDir()})
	s, err := tryOpen(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 100)
	before := live()
	b.ResetTimer()
	parallel(b, 32, b.N, func(i int64) {
		name := fmt.Sprintf("queue-%06d", i)
		if _, err := s.Create("acct", name, nil); err != nil {
			b.Error(err)
		}
		if _, err := s.Queue("acct", name).Put(body, 0, time.Hour, time.Now()); err != nil {
			b.Error(err)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(max(0, live()-before))/float64(b.N), "liveB/queue")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if s, err = tryOpen(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "reopen-ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// live returns the bytes that are live in the heap.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkBatch puts 32 messages together, gets them and deletes them together, with others that do the same. An
// operation is a message.
func BenchmarkBatch(b *testing.B) {
	const size = 32
	modes(b, func(b *testing.B, relaxed bool) {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
				q := create(b, benchStore(b, relaxed), "q")
				list := make([]NewMessage, size)
				for i := range list {
					list[i].Body = make([]byte, 1024)
				}
				b.ResetTimer()
				parallel(b, callers, (b.N+size-1)/size, func(int64) {
					now := time.Now()
					if _, err := q.PutAll(list, time.Hour, now); err != nil {
						b.Error(err)
					}
					got, err := q.Get(size, time.Minute, now)
					if err != nil {
						b.Error(err)
					}
					held := make([]Held, len(got))
					for i, m := range got {
						held[i] = Held{m.ID, m.Receipt}
					}
					if _, err := q.DeleteAll(held, now); err != nil {
						b.Error(err)
					}
				})
			})
		}
	})
}
