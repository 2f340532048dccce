package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := observe.NewMetrics(reg)
	r := &wire.Request{Service: wire.Queue, Operation: "PutMessage"}
	m.Observe(r, frontend.Outcome{Status: 201, Written: 10, Duration: time.Millisecond})
	m.Observe(r, frontend.Outcome{Status: 201, Written: 5, Duration: time.Millisecond})
	m.Observe(r, frontend.Outcome{Status: 404, Duration: time.Millisecond})
	m.Observe(&wire.Request{Service: wire.Blob, Lake: true, Operation: "PathCreate"},
		frontend.Outcome{Status: 201, Duration: time.Millisecond})
	want := `
# HELP lazuli_requests_total Requests answered, by operation and HTTP status; status 0 for connections that broke before an answer.
# TYPE lazuli_requests_total counter
lazuli_requests_total{operation="PathCreate",service="dfs",status="201"} 1
lazuli_requests_total{operation="PutMessage",service="queue",status="201"} 2
lazuli_requests_total{operation="PutMessage",service="queue",status="404"} 1
# HELP lazuli_response_bytes_total Bytes of response bodies.
# TYPE lazuli_response_bytes_total counter
lazuli_response_bytes_total{operation="PathCreate",service="dfs",status="201"} 0
lazuli_response_bytes_total{operation="PutMessage",service="queue",status="201"} 15
lazuli_response_bytes_total{operation="PutMessage",service="queue",status="404"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "lazuli_requests_total",
		"lazuli_response_bytes_total"); err != nil {
		t.Error(err)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := observe.NewMetrics(prometheus.NewRegistry())
	r := &wire.Request{Service: wire.Table, Operation: "InsertEntity"}
	for b.Loop() {
		m.Observe(r, frontend.Outcome{Status: 201, Written: 1024, Duration: time.Millisecond})
	}
}
