package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

func benchHub(b *testing.B, orchestrators map[string]task.Orchestrator) *durable.Client {
	b.Helper()
	lazuli := lazulitest.Start(b, lazulitest.WithData(b.TempDir()))
	be, err := durable.New(durable.Options{Storage: lazuli.Default(b).Storage, Hub: "Bench",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	r := task.NewTaskRegistry()
	for name, o := range orchestrators {
		_ = r.AddOrchestratorN(name, o)
	}
	_ = r.AddActivityN("double", double)
	w := be.NewWorker(task.NewTaskExecutor(r), durable.WorkerOptions{MaxOrchestrations: 64, MaxActivities: 64})
	if err := w.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Shutdown(context.Background()) })
	return be.Client()
}

// BenchmarkSequence runs 64 workflows at a time, each of five activities one after the other, with the server in the
// same process.
func BenchmarkSequence(b *testing.B) {
	c := benchHub(b, map[string]task.Orchestrator{"sequence": func(ctx *task.OrchestrationContext) (any, error) {
		for i := range 5 {
			if err := ctx.CallActivity("double", task.WithActivityInput(i)).Await(nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}})
	b.ResetTimer()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range next {
				id, err := c.Start(b.Context(), "sequence", durable.StartOptions{InstanceID: fmt.Sprint("s", i)})
				if err == nil {
					_, err = c.Wait(b.Context(), id)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range b.N {
		next <- i
	}
	close(next)
	wg.Wait()
	b.ReportMetric(float64(5*b.N)/b.Elapsed().Seconds(), "activities/s")
}

// BenchmarkFanOut runs one workflow of 1,000 activities at once.
func BenchmarkFanOut(b *testing.B) {
	c := benchHub(b, map[string]task.Orchestrator{"fanOut": fanOut})
	b.ResetTimer()
	for range b.N {
		id, err := c.Start(b.Context(), "fanOut", durable.StartOptions{Input: "1000"})
		if err == nil {
			_, err = c.Wait(b.Context(), id)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "activities/s")
}
