package dashboard_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// entries is the number of blobs, messages and entities of the benchmark: 2,000, or what the variable says.
//
//	LAZULI_BENCH_ENTRIES=1000000 go test ./internal/server/dashboard -run '^$' -bench FirstByte -benchtime 200x -timeout 2h
func entries(b *testing.B) int {
	text := os.Getenv("LAZULI_BENCH_ENTRIES")
	if text == "" {
		return 2_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		b.Fatalf("LAZULI_BENCH_ENTRIES is %q, want a number of at least 100", text)
	}
	return n
}

// BenchmarkFirstByte measures the time from a request over loopback to the first byte of its response, for each list
// page.
func BenchmarkFirstByte(b *testing.B) {
	n := entries(b)
	s, err := server.Start(server.Config{Location: b.TempDir(), Relaxed: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	site := httptest.NewServer(dashboard.New(
		dashboard.Options{Backend: func() dashboard.Backend { return s }, Accounts: auth.Development(),
			Requests: requestlog.New(time.Now), Log: slog.New(slog.DiscardHandler)}))
	defer site.Close()
	fill(b, s, n)
	middle := fmt.Sprintf("%07d", n/2)
	for _, page := range []struct{ name, path string }{
		{"containers", base + "containers"},
		{"blobs", base + "containers/big"},
		{"blobs/middle", base + "containers/big?prefix=" + middle[:3]},
		{"blobs/one", base + "blob/big?name=" + middle},
		{"queues", base + "queues"},
		{"messages", base + "queues/big"},
		{"tables", base + "tables"},
		{"entities", base + "tables/Big"},
		{"entities/partition", base + "tables/Big?filter=PartitionKey+eq+%27" + middle[:4] + "%27"},
		{"entities/one", base + "tables/Big?filter=PartitionKey+eq+%27" + middle[:4] + "%27+and+RowKey+eq+%27" + middle +
			"%27"},
	} {
		b.Run(page.name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				all = append(all, firstByte(b, site.URL+page.path))
			}
			slices.Sort(all)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(all[0]), "ms/fastest")
			b.ReportMetric(ms(all[len(all)/2]), "ms/median")
			b.ReportMetric(ms(all[len(all)-1]), "ms/slowest")
		})
	}
}

func firstByte(b *testing.B, url string) (took time.Duration) {
	b.Helper()
	begin := time.Now()
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(begin) }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(b.Context(), trace), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("GET %s: %s", url, resp.Status)
	}
	return took
}

// fill makes n blobs, messages and entities, in partitions of 1,000 entities.
func fill(b *testing.B, s *server.Server, n int) {
	b.Helper()
	ctx := b.Context()
	options := azcore.ClientOptions{Transport: &http.Client{Transport: s.InProcess()},
		Retry: policy.RetryOptions{MaxRetries: -1}}
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	blobs, err := azblob.NewClientWithNoCredential(s.InProcessURL(wire.Blob, auth.DevelopmentAccount),
		&azblob.ClientOptions{ClientOptions: options})
	must(err)
	_, err = blobs.CreateContainer(ctx, "big", nil)
	must(err)
	queues, err := azqueue.NewServiceClientWithNoCredential(s.InProcessURL(wire.Queue, auth.DevelopmentAccount),
		&azqueue.ClientOptions{ClientOptions: options})
	must(err)
	queue := queues.NewQueueClient("big")
	_, err = queue.Create(ctx, nil)
	must(err)
	tables, err := aztables.NewServiceClientWithNoCredential(s.InProcessURL(wire.Table, auth.DevelopmentAccount),
		&aztables.ClientOptions{ClientOptions: options})
	must(err)
	table := tables.NewClient("Big")
	_, err = table.CreateTable(ctx, nil)
	must(err)
	each(b, n, func(i int) error {
		_, err := blobs.UploadBuffer(ctx, "big", fmt.Sprintf("%07d", i), []byte("content"), nil)
		return err
	})
	each(b, n, func(i int) error {
		_, err := queue.EnqueueMessage(ctx, fmt.Sprintf("message %07d", i), nil)
		return err
	})
	each(b, n/100, func(i int) error {
		var list []aztables.TransactionAction
		for row := i * 100; row < (i+1)*100; row++ {
			key := fmt.Sprintf("%07d", row)
			list = append(list, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: fmt.Appendf(nil,
				`{"PartitionKey":%q,"RowKey":%q,"Name":"entity","Count":%d}`, key[:4], key, row)})
		}
		_, err := table.SubmitTransaction(ctx, list, nil)
		return err
	})
}

// each calls do with 0 to n-1, 64 calls at a time.
func each(b *testing.B, n int, do func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var g errgroup.Group
	for range 64 {
		g.Go(func() error {
			for {
				i := int(next.Add(1) - 1)
				if i >= n {
					return nil
				}
				if err := do(i); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}
