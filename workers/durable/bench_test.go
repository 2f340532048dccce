package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

func benchHub(b *testing.B, orchestrators workflows) *hub.Client {
	b.Helper()
	lazuli := lazulitest.Start(b, lazulitest.WithData(b.TempDir()))
	be, err := hub.New(hub.Options{Storage: lazuli.Default(b).Storage, Hub: "Bench",
		MaxOrchestrations: 64, MaxActivities: 64, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	r := registry(b, orchestrators, activities{"double": double})
	w := be.NewWorker(r)
	if err := w.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Shutdown(context.Background()) })
	return be.Client()
}

// BenchmarkSequence runs 64 workflows at a time, each of five activities one after the other, with the server in the
// same process.
func BenchmarkSequence(b *testing.B) {
	c := benchHub(b, workflows{"sequence": func(ctx *durable.Context) (any, error) {
		for i := range 5 {
			if err := ctx.CallActivity("double", durable.WithInput(i)).Await(nil); err != nil {
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
				id, err := c.Start(b.Context(), "sequence", hub.StartOptions{InstanceID: fmt.Sprint("s", i)})
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
	c := benchHub(b, workflows{"fanOut": fanOut})
	b.ResetTimer()
	for range b.N {
		id, err := c.Start(b.Context(), "fanOut", hub.StartOptions{Input: "1000"})
		if err == nil {
			_, err = c.Wait(b.Context(), id)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "activities/s")
}

// counted counts the requests of clients by method and place.
type counted struct {
	next *http.Client
	mu   sync.Mutex // guards n
	n    map[string]int
}

func (c *counted) Do(r *http.Request) (*http.Response, error) {
	place := strings.SplitN(r.URL.Path, "/", 4)[2]
	if i := strings.IndexAny(place, "(-"); i > 0 {
		place = place[i:]
		if j := strings.IndexByte(place, '('); j >= 0 {
			place = place[:j] + "()"
		}
	}
	if strings.Contains(r.URL.Path, "History") || strings.Contains(r.URL.Path, "batch") {
		place = "history"
	}
	c.mu.Lock()
	c.n[r.Method+" "+strings.TrimRight(place, "0123456789")]++
	c.mu.Unlock()
	return c.next.Do(r)
}

// BenchmarkChain runs 16 workflows at a time, each of three activities one after the other; a client that is not the
// worker waits for them. Server, worker and client share the process, and speak over HTTP.
func BenchmarkChain(b *testing.B) {
	lazuli := lazulitest.Start(b, lazulitest.WithData(b.TempDir()))
	connection := lazuli.Default(b).ConnectionString()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	requests := &counted{next: &http.Client{Transport: transport}, n: map[string]int{}}
	open := func() hub.Options {
		storage, err := workers.OpenStorage(connection, workers.WithTransport(requests))
		if err != nil {
			b.Fatal(err)
		}
		return hub.Options{Storage: storage, Hub: "Bench", Logger: slog.New(slog.DiscardHandler)}
	}
	r := registry(b, workflows{"chain": func(ctx *durable.Context) (any, error) {
		for i := range 3 {
			if err := ctx.CallActivity("double", durable.WithInput(i)).Await(nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}, activities{"double": double})
	be, err := hub.New(open())
	if err != nil {
		b.Fatal(err)
	}
	w := be.NewWorker(r)
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = w.Shutdown(context.Background()) }()
	c, err := hub.NewClient(b.Context(), open())
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	clear(requests.n)
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				id, err := c.Start(b.Context(), "chain", hub.StartOptions{InstanceID: fmt.Sprint("c", i)})
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
	all.Wait()
	b.StopTimer()
	total := 0
	requests.mu.Lock()
	for _, n := range requests.n {
		total += n
	}
	b.Logf("%v", requests.n)
	requests.mu.Unlock()
	b.ReportMetric(float64(total)/float64(b.N), "requests/workflow")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "workflows/s")
}

// benchWorkers runs an app on each of several processes' engines, all in this process, on one hub of 16 partitions.
func benchWorkers(b *testing.B, workerCount int) *hub.Client {
	b.Helper()
	lazuli := lazulitest.Start(b, lazulitest.WithData(b.TempDir()))
	var c *hub.Client
	for range workerCount {
		engine := durable.NewEngine(durable.Options{Hub: "Bench", Partitions: 16})
		app := workers.New(workers.Config{Storage: lazuli.Default(b).Storage, Logger: slog.New(slog.DiscardHandler),
			Durable: engine})
		app.Entity("account", accountEntity())
		workers.Activity(app, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		durable.Register(app, "one", func(ctx *durable.Context, n int) (int, error) {
			return durable.Call[int](ctx, "double", n)
		})
		if err := app.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = app.Stop(context.Background()) })
		client, err := engine.WaitClient(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		c = client.Hub()
	}
	return c
}

// BenchmarkOrchestrations runs workflows of one activity, 64 at a time, on 1, 4 and 16 workers.
func BenchmarkOrchestrations(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(n, "-workers"), func(b *testing.B) {
			c := benchWorkers(b, n)
			b.ResetTimer()
			inParallel(b, 64, func(i int) error {
				id, err := c.Start(b.Context(), "one", hub.StartOptions{InstanceID: fmt.Sprint("o", i), Input: "1"})
				if err == nil {
					_, err = c.Wait(b.Context(), id)
				}
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orchestrations/s")
		})
	}
}

// BenchmarkSignals sends signals to 100 entities, 64 at a time, on 1, 4 and 16 workers, until all have had an effect.
func BenchmarkSignals(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(n, "-workers"), func(b *testing.B) {
			c := benchWorkers(b, n)
			id := func(i int) string { return hub.EntityID("account", fmt.Sprint(i%100)) }
			b.ResetTimer()
			inParallel(b, 64, func(i int) error {
				return c.SignalEntity(b.Context(), id(i), "add", hub.SignalOptions{Input: "1"})
			})
			for sum := 0; sum < b.N; {
				sum = 0
				for i := range 100 {
					e, err := c.Entity(b.Context(), id(i), true)
					if err == nil && e.State != nil {
						n, _ := strconv.Atoi(*e.State)
						sum += n
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "signals/s")
		})
	}
}

// inParallel calls f for the numbers below b.N.
func inParallel(b *testing.B, parallel int, f func(i int) error) {
	b.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
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
}
