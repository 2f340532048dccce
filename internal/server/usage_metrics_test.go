package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
)

// gathered returns the values of all metrics by name and labels, "name{a,b}"; of histograms the sums and counts.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	check.OK(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetHistogram() != nil:
				values[f.GetName()+"_bucket{"+strings.Join(labels, ",")+"}"] = 0
				values[f.GetName()+"_sum{"+strings.Join(labels, ",")+"}"] = m.GetHistogram().GetSampleSum()
			case m.GetGauge() != nil:
				values[key] = m.GetGauge().GetValue()
			default:
				values[key] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// The metrics show sizes, queues with their oldest messages, commits and events.
func TestUsageMetrics(t *testing.T) {
	t.Parallel()
	reg, now := prometheus.NewRegistry(), clock.New(0)
	s := start(t, server.Config{Location: t.TempDir(), Metrics: reg, Events: true, Now: now.Now, ClientsNow: time.Now})
	queues, blobs := queueClient(t, s), blobClient(t, s)
	for _, name := range []string{"orders", "orders-poison"} {
		_, err := queues.CreateQueue(t.Context(), name, nil)
		check.OK(t, err)
	}
	_, err := queues.NewQueueClient("orders").EnqueueMessage(t.Context(), "x", nil)
	check.OK(t, err)
	_, err = s.Events().Add(t.Context(),
		events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, EndpointType: events.StorageQueue,
			Endpoint: "orders-poison"})
	check.OK(t, err)
	_, err = blobs.CreateContainer(t.Context(), "photos", nil)
	check.OK(t, err)
	_, err = blobs.UploadBuffer(t.Context(), "photos", "a", make([]byte, 100_000), nil)
	check.OK(t, err)
	_, err = s.Events().Flush(t.Context())
	check.OK(t, err)
	now.Advance(90 * time.Second)
	got := gathered(t, reg)
	const account = auth.DevelopmentAccount
	for name, want := range map[string]float64{
		"lazuli_queue_messages{" + account + ",orders}": 1, "lazuli_queue_messages{" + account + ",orders-poison}": 1,
		"lazuli_queue_oldest_age_seconds{" + account + ",orders}": 90, "lazuli_queues_without_metrics{}": 0,
		"lazuli_events_total{" + account + ",delivered,sub}": 1, "lazuli_events_pending{" + account + ",sub}": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	for name, least := range map[string]float64{"lazuli_storage_bytes{content}": 100_000, "lazuli_storage_bytes{blobs}": 1,
		"lazuli_storage_bytes{tables}": 1,
		"lazuli_storage_bytes{queues}": 1, "lazuli_disk_free_bytes{}": 1, "lazuli_commit_groups_total{blobs}": 1,
		"lazuli_commit_updates_total{blobs}": 2} {
		if v := got[name]; v < least {
			t.Errorf("%s is %v, want at least %v", name, v, least)
		}
	}
}

// A request that waits for a message, because its client asks for that, does not count as slow.
func TestWaitsAreNoLatency(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s := start(t, server.Config{InMemory: true, Metrics: reg})
	queues := queueClient(t, s)
	_, err := queues.CreateQueue(t.Context(), "orders", nil)
	check.OK(t, err)
	ctx := policy.WithHTTPHeader(t.Context(), map[string][]string{"X-Lazuli-Wait": {"1"}})
	_, err = queues.NewQueueClient("orders").DequeueMessage(ctx, nil)
	check.OK(t, err)
	check.Eventually(t, func() bool {
		_, ok := gathered(t, reg)["lazuli_request_duration_seconds_sum{GetMessages,queue,200}"]
		return ok
	}, "the request is counted")
	if v := gathered(t, reg)["lazuli_request_duration_seconds_sum{GetMessages,queue,200}"]; v >= 1 {
		t.Errorf("a request that waited 1 s counts as %v s", v)
	}
}
