package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/top"
)

func parseSample(t *testing.T, text string) *top.Sample {
	t.Helper()
	s, err := top.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTop(t *testing.T) {
	text := func(n string) string {
		return `# TYPE lazuli_requests_total counter
lazuli_requests_total{operation="PutMessage",service="queue",status="201"} ` + n + `
lazuli_requests_total{operation="PutMessage",service="queue",status="404"} 2
# TYPE lazuli_request_duration_seconds histogram
lazuli_request_duration_seconds_bucket{operation="PutMessage",service="queue",status="201",le="0.001"} ` + n + `
lazuli_request_duration_seconds_bucket{operation="PutMessage",service="queue",status="201",le="+Inf"} ` + n + `
lazuli_request_duration_seconds_sum{operation="PutMessage",service="queue",status="201"} ` + n + `
lazuli_request_duration_seconds_count{operation="PutMessage",service="queue",status="201"} ` + n + `
# TYPE lazuli_queue_messages gauge
lazuli_queue_messages{account="a",queue="orders"} 7
lazuli_queue_messages{account="a",queue="empty"} 0
# TYPE lazuli_queue_oldest_age_seconds gauge
lazuli_queue_oldest_age_seconds{account="a",queue="orders"} 90
# TYPE lazuli_storage_bytes gauge
lazuli_storage_bytes{part="content"} 2.5e+06
`
	}
	before, after := parseSample(t, text("10")), parseSample(t, text("30"))
	before.At = after.At.Add(-2 * time.Second)
	var out strings.Builder
	report := after.Report(before, 5)
	report.Write(&out)
	got := out.String()
	for _, want := range []string{"10 requests/s, 0 errors/s, 1 operations",
		"10.0       0.0    1s  ≤1ms  ≤1ms       0.00  queue PutMessage", "7   1m30s  a/orders", "content 2.5 MB"} {
		if !strings.Contains(got, want) {
			t.Errorf("lazuli top prints\n%s\nwithout %q", got, want)
		}
	}
	if q := report.Queues; len(q) != 1 || *q[0].Oldest != 90 || report.Operations[0].P99 != 0.001 {
		t.Errorf("the report is %+v", report)
	}
	if strings.Contains(got, "empty") {
		t.Errorf("an empty queue is shown:\n%s", got)
	}
}

// The command reads a running server.
func TestTopCommand(t *testing.T) {
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0"}})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	if code, output := runCommand(t, "top", "-n", "2", "--every", "10ms", "--admin-port", port); code != exitOK ||
		strings.Count(output, "requests/s,") != 2 || !strings.Contains(output, "content 0.0 MB") {
		t.Errorf("exit code %d, output %q", code, output)
	}
	code, output := runCommand(t, "top", "-n", "1", "--every", "10ms", "--admin-port", port, "--json")
	if code != exitOK || !strings.HasPrefix(output, `{"time":"`) || !strings.Contains(output, `"queues":[]`) {
		t.Errorf("exit code %d, output %q", code, output)
	}
	if code, _ := runCommand(t, "top", "--every", "0s"); code != exitUsage {
		t.Errorf("exit code %d for --every 0s", code)
	}
	r.cancel()
	r.end(t)
}
