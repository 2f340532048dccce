package analytics

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// Nodes of a cluster write to the same rows and log blobs: sums are added up, and no blob replaces another one.
func TestNodesAddUp(t *testing.T) {
	t.Parallel()
	tables := check.Must(tablesvc.New(tablesvc.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { check.OK(t, tables.Close()) })
	blobs := check.Must(blobsvc.New(blobsvc.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { check.OK(t, blobs.Close()) })

	settings := &properties.Properties{Logging: properties.Logging{Version: "1.0", Read: true},
		HourMetrics: properties.Metrics{Enabled: true}}
	now := time.Date(2014, 6, 19, 22, 59, 24, 0, time.UTC)
	const rounds, nodes, requests = 10, 3, 5
	var all sync.WaitGroup
	for range nodes { // a node that restarts is a new Analytics
		all.Go(func() {
			for range rounds {
				a := New(Config{Settings: func(wire.Service, string) *properties.Properties { return settings },
					Accounts: func() []string { return []string{auth.DevelopmentAccount} }, Now: func() time.Time { return now },
					Log: slog.New(slog.DiscardHandler)})
				a.Start(blobs.Handler(), tables.Handler())
				for range requests {
					a.Observe(request(t, "GET", "http://127.0.0.1:10000/"+auth.DevelopmentAccount+"/c/b", "2021-12-02"),
						frontend.Outcome{Status: 200})
				}
				if err := a.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()

	ctx := wire.WithSystem(t.Context())
	a := New(Config{Settings: func(wire.Service, string) *properties.Properties { return settings },
		Accounts: func() []string { return nil }})
	a.Start(blobs.Handler(), tables.Handler())
	defer func() { check.OK(t, a.Stop(t.Context())) }()
	metrics := check.Must(a.tables(auth.DevelopmentAccount, "$MetricsHourPrimaryTransactionsBlob"))(t)
	row := check.Must(metrics.GetEntity(ctx, "20140619T2200", "user;All", nil))(t)
	var e aztables.EDMEntity
	check.OK(t, json.Unmarshal(row.Value, &e))
	if got := e.Properties["TotalRequests"]; got != aztables.EDMInt64(rounds*nodes*requests) {
		t.Errorf("the row has %v requests, want %d", got, rounds*nodes*requests)
	}
	client := check.Must(a.blobs(auth.DevelopmentAccount))(t)
	lines, buffer := 0, make([]byte, 1<<20)
	for pager := client.NewListBlobsFlatPager(LogsContainer, nil); pager.More(); {
		page := check.Must(pager.NextPage(ctx))(t)
		for _, item := range page.Segment.BlobItems {
			n := check.Must(client.DownloadBuffer(ctx, LogsContainer, *item.Name, buffer, nil))(t)
			lines += bytes.Count(buffer[:n], []byte("\n"))
		}
	}
	if lines != rounds*nodes*requests {
		t.Errorf("the log blobs have %d lines, want %d", lines, rounds*nodes*requests)
	}
}
