//go:build unix

package servertest

import (
	"context"
	"encoding/base64"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// durableAccount is an account on a server that syncs what it acknowledges, over loopback connections.
func durableAccount(b *testing.B) *lazulitest.Account {
	b.Helper()
	return lazulitest.Start(b, lazulitest.WithData(b.TempDir())).Default(b)
}

// BenchmarkEmptyHandler measures messages that wait in a durable queue: received, handled by a function that does
// nothing, deleted. All through the SDK; server and worker share the machine.
func BenchmarkEmptyHandler(b *testing.B) {
	for _, bc := range []struct {
		name    string
		options []workers.QueueOption
	}{
		{"defaults", nil},
		{"batch32", []workers.QueueOption{workers.WithBatchSize(32)}},
		{"concurrency128", []workers.QueueOption{workers.WithBatchSize(32), workers.WithNewBatchThreshold(96)}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			a := durableAccount(b)
			client := a.Queues.NewQueueClient("work")
			if _, err := client.Create(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
			text := base64.StdEncoding.EncodeToString(make([]byte, 256))
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for n := i; n < b.N; n += 16 {
						if _, err := client.EnqueueMessage(b.Context(), text, nil); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet})
			app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error { return nil }, bc.options...)
			b.ResetTimer()
			began, cpu := time.Now(), cpuTime(b)
			a.Run(app)
			for app.Stats()[0].Succeeded < int64(b.N) {
				time.Sleep(time.Millisecond)
			}
			if err := app.Stop(context.Background()); err != nil { // The last deletions.
				b.Error(err)
			}
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "messages/s")
			// of server and worker; on a busy machine this holds
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/message")
		})
	}
}

// BenchmarkWake measures how long an idle function takes to begin with a message, from before its put on.
func BenchmarkWake(b *testing.B) {
	a := durableAccount(b)
	var begun atomic.Int64
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet})
	entered := make(chan time.Time, 1)
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		begun.Add(1)
		entered <- time.Now()
		return nil
	})
	client := a.Queues.NewQueueClient("work")
	if _, err := client.Create(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	a.Run(app)
	var total, most time.Duration
	for b.Loop() {
		b.StopTimer()
		a.Drain()
		time.Sleep(3 * time.Millisecond) // Idle, and waiting at the service.
		b.StartTimer()
		began := time.Now()
		if _, err := client.EnqueueMessage(b.Context(), "eA==", nil); err != nil {
			b.Fatal(err)
		}
		took := (<-entered).Sub(began)
		total, most = total+took, max(most, took)
	}
	b.ReportMetric(float64(total.Microseconds())/float64(begun.Load())/1000, "ms/wake")
	b.ReportMetric(float64(most.Microseconds())/1000, "ms-most")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
