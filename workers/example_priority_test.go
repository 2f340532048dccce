package workers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

func ExampleBatch() {
	storage, stopServer := exampleStorage("readings", `{"sensor": "a", "value": 20}`, `{"sensor": "b", "value": -300}`,
		`{"sensor": "c", "value": 22}`)
	defer stopServer()

	type reading struct {
		Sensor string
		Value  float64
	}
	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Batch(app, "readings", func(ctx context.Context, batch []*workers.BatchMessage[reading]) error {
		var rows []reading
		for _, m := range batch {
			if m.Body.Value < -273.15 {
				m.Finish(workers.Permanent(errors.New("colder than possible"))) // to the poison queue
				continue
			}
			rows = append(rows, m.Body)
		}
		fmt.Println("store", rows)
		done()
		return nil // The result of those that are not finished. An error lets them be tried again.
	}, workers.WithBatchSize(32))
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(app.Stats()[0].Succeeded, "done,", app.Stats()[0].Poisoned, "poisoned")
	// Output:
	// store [{a 20} {c 22}]
	// 2 done, 1 poisoned
}

func ExampleStrictPriority() {
	storage, stopServer := exampleStorage("bulk", "a newsletter", "another newsletter")
	defer stopServer()
	ctx, done := context.WithCancel(context.Background())
	if err := storage.Enqueue(ctx, "urgent", "a password reset"); err != nil {
		fmt.Println(err)
	}

	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	app.Queue("mail", func(ctx context.Context, m workers.QueueMessage) error {
		fmt.Println("send", string(m.Body))
		if string(m.Body) == "another newsletter" {
			done()
		}
		return nil
	}, workers.StrictPriority("urgent", "bulk"), workers.WithConcurrency(1))
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// send a password reset
	// send a newsletter
	// send another newsletter
}

func ExampleWithRateLimitPerKey() {
	storage, stopServer := exampleStorage("calls", `{"customer": "acme"}`, `{"customer": "acme"}`, `{"customer": "zoo"}`)
	defer stopServer()

	type call struct{ Customer string }
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	var mu sync.Mutex
	calls := map[string]int{}
	var second time.Time // when the second call of acme began
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Queue(app, "calls", func(ctx context.Context, m *workers.Message[call]) error {
		mu.Lock()
		defer mu.Unlock()
		calls[m.Body.Customer]++
		if calls["acme"] == 2 && second.IsZero() {
			second = time.Now()
		}
		if calls["acme"] == 2 && calls["zoo"] == 1 {
			done()
		}
		return nil
	},
		workers.WithRateLimit(workers.Rate{Calls: 100, Per: time.Second, Burst: 10}),
		workers.WithRateLimitPerKey(func(c call) string { return c.Customer }, workers.Rate{Calls: 2, Per: time.Second}))
	before := time.Now()
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// The limit is on the starts of calls. A busy machine may be late with the first one, so this compares with the start
	// of the app, before which no call began.
	fmt.Println("apart:", second.Sub(before) > 400*time.Millisecond)
	// Output: apart: true
}
