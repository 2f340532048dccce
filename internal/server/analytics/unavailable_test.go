package analytics

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

// unreliable is a service of a cluster that has no leader from time to time: it refuses a third of the requests, and
// makes a third whose answer says that they may not have been made.
type unreliable struct {
	http.Handler
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

func newUnreliable(h http.Handler, seed uint64) *unreliable {
	return &unreliable{Handler: h, rnd: rand.New(rand.NewPCG(seed, 1))}
}

// ServeHTTP implements http.Handler.
func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	n := u.rnd.IntN(3)
	u.mu.Unlock()
	switch {
	case n == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case n == 1 && r.Method != http.MethodGet:
		u.Handler.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusInternalServerError)
	default:
		u.Handler.ServeHTTP(w, r)
	}
}

// Requests are counted and logged once, although the services refuse to store that, or do not know whether they have.
func TestRowsAndLogsAreWrittenOnceByUnreliableServices(t *testing.T) {
	t.Parallel()
	tables := check.Must(tablesvc.New(tablesvc.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { check.OK(t, tables.Close()) })
	blobs := check.Must(blobsvc.New(blobsvc.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { check.OK(t, blobs.Close()) })
	settings := &properties.Properties{Logging: properties.Logging{Version: "1.0", Read: true},
		HourMetrics: properties.Metrics{Enabled: true}, MinuteMetrics: properties.Metrics{Enabled: true, IncludeAPIs: true}}
	now := time.Date(2014, 6, 19, 22, 59, 24, 0, time.UTC)
	a := New(Config{Settings: func(wire.Service, string) *properties.Properties { return settings }, Every: time.Hour,
		Accounts: func() []string { return nil }, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	a.Start(newUnreliable(blobs.Handler(), 1), newUnreliable(tables.Handler(), 2))
	const rounds, requests = 20, 3
	for range rounds {
		for range requests {
			a.Observe(request(t, "GET", "http://127.0.0.1:10000/"+auth.DevelopmentAccount+"/c/b", "2021-12-02"),
				frontend.Outcome{Status: 200})
		}
		_ = a.flush(t.Context(), true)
	}
	var err error
	for flushes := 0; a.waiting(); flushes++ {
		if flushes > 1000 {
			t.Fatalf("what was refused is not written: %v", err)
		}
		err = a.flush(t.Context(), true)
	}
	check.OK(t, a.Stop(t.Context()))

	ctx := wire.WithSystem(t.Context())
	reader := New(Config{Settings: func(wire.Service, string) *properties.Properties { return settings },
		Accounts: func() []string { return nil }})
	reader.Start(blobs.Handler(), tables.Handler())
	defer func() { check.OK(t, reader.Stop(t.Context())) }()
	for table, row := range map[string][2]string{
		"$MetricsHourPrimaryTransactionsBlob":   {"20140619T2200", "user;All"},
		"$MetricsMinutePrimaryTransactionsBlob": {"20140619T2259", "user;GetBlob"},
	} {
		metrics := check.Must(reader.tables(auth.DevelopmentAccount, table))(t)
		stored := check.Must(metrics.GetEntity(ctx, row[0], row[1], nil))(t)
		var e aztables.EDMEntity
		check.OK(t, json.Unmarshal(stored.Value, &e))
		if got := e.Properties["TotalRequests"]; got != aztables.EDMInt64(rounds*requests) {
			t.Errorf("%s has %v requests, want %d", table, got, rounds*requests)
		}
	}
	client := check.Must(reader.blobs(auth.DevelopmentAccount))(t)
	lines, buffer := 0, make([]byte, 1<<20)
	for pager := client.NewListBlobsFlatPager(LogsContainer, nil); pager.More(); {
		page := check.Must(pager.NextPage(ctx))(t)
		for _, item := range page.Segment.BlobItems {
			n := check.Must(client.DownloadBuffer(ctx, LogsContainer, *item.Name, buffer, nil))(t)
			lines += bytes.Count(buffer[:n], []byte("\n"))
		}
	}
	if lines != rounds*requests {
		t.Errorf("the log blobs have %d lines, want %d", lines, rounds*requests)
	}
}
