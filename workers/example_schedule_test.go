package workers_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

func ExampleApp_Schedules() {
	storage, stopServer := exampleStorage("reports")
	defer stopServer()
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()

	// From any process, at any time; `lazuli schedule create` does the same.
	err := storage.CreateSchedule(ctx, workers.Schedule{Name: "acme", Expression: "* * * * * *", Queue: "reports",
		Body: map[string]string{"customer": "acme"}})
	if err != nil {
		fmt.Println(err)
	}

	type report struct {
		Customer, Schedule string
		ScheduledTime      time.Time
	}
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	app.Schedules()
	var once sync.Once
	workers.Queue(app, "reports", func(ctx context.Context, m *workers.Message[report]) error {
		once.Do(func() { fmt.Println("a report for", m.Body.Customer, "by the schedule", m.Body.Schedule) })
		done()
		return nil
	}, workers.WithConcurrency(1))
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: a report for acme by the schedule acme
}
