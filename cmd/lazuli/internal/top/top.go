// Package top makes the report of `lazuli top`: the rates of a server between two looks at its metrics.
package top

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample holds the metrics of a server at one time.
type Sample struct {
	At       time.Time
	families map[string]*dto.MetricFamily
}

// Parse reads the metrics of a server in the text format of Prometheus.
func Parse(text []byte) (*Sample, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	return &Sample{time.Now(), families}, err
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// figures are counts of an operation: those of a sample, or the difference of two.
type figures struct {
	service, name                    string
	requests, errors, bytes, seconds float64
	buckets                          map[float64]float64
}

func (s *Sample) operations() map[string]*figures {
	all := map[string]*figures{}
	of := func(m *dto.Metric) *figures {
		key := label(m, "service") + " " + label(m, "operation")
		if all[key] == nil {
			all[key] = &figures{service: label(m, "service"), name: label(m, "operation"), buckets: map[float64]float64{}}
		}
		return all[key]
	}
	for _, m := range s.families["lazuli_requests_total"].GetMetric() {
		o, n := of(m), m.GetCounter().GetValue()
		o.requests += n
		if status := label(m, "status"); status >= "400" || status == "0" {
			o.errors += n
		}
	}
	for _, m := range s.families["lazuli_response_bytes_total"].GetMetric() {
		of(m).bytes += m.GetCounter().GetValue()
	}
	for _, m := range s.families["lazuli_request_duration_seconds"].GetMetric() {
		o := of(m)
		o.seconds += m.GetHistogram().GetSampleSum()
		for _, b := range m.GetHistogram().GetBucket() {
			o.buckets[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	return all
}

// since subtracts what was counted before.
func (o *figures) since(before *figures) {
	if before == nil {
		return
	}
	o.requests, o.errors, o.bytes, o.seconds = o.requests-before.requests, o.errors-before.errors, o.bytes-before.bytes,
		o.seconds-before.seconds
	for limit, n := range before.buckets {
		o.buckets[limit] -= n
	}
}

// quantile is the upper bound of the bucket with the share q of the requests, in seconds; 0 if it is beyond the
// largest.
func (o *figures) quantile(q float64) float64 {
	limits := make([]float64, 0, len(o.buckets))
	for l := range o.buckets {
		limits = append(limits, l)
	}
	slices.Sort(limits)
	for _, l := range limits {
		if o.buckets[l] >= q*o.requests && !math.IsInf(l, 1) {
			return l
		}
	}
	return 0
}

// Report is one look at a server. Rates are those since the look before; times are in seconds.
type Report struct {
	Time       time.Time          `json:"time"`
	Requests   float64            `json:"requestsPerSecond"`
	Errors     float64            `json:"errorsPerSecond"`
	Operations []Operation        `json:"operations"` // the busiest
	Busy       int                `json:"busyOperations"`
	Queues     []Queue            `json:"queues"` // the longest
	Storage    map[string]float64 `json:"storageBytes"`
	DiskFree   *float64           `json:"diskFreeBytes,omitempty"`
}

// Operation has the figures of one operation.
type Operation struct {
	Service   string  `json:"service"`
	Operation string  `json:"operation"` // "" of refused requests
	Requests  float64 `json:"requestsPerSecond"`
	Errors    float64 `json:"errorsPerSecond"`
	Mean      float64 `json:"meanSeconds"`
	// P50 and P99 are upper bounds, 0 if they are beyond 10 s.
	P50  float64 `json:"p50Seconds"`
	P99  float64 `json:"p99Seconds"`
	Sent float64 `json:"sentBytesPerSecond"`
}

// Queue is a queue with messages.
type Queue struct {
	Account  string   `json:"account"`
	Queue    string   `json:"queue"`
	Messages float64  `json:"messages"`
	Oldest   *float64 `json:"oldestSeconds,omitempty"` // nil: not known
}

// Report returns the rates since before, of at most rows operations and queues.
func (s *Sample) Report(before *Sample, rows int) *Report {
	seconds := s.At.Sub(before.At).Seconds()
	old := before.operations()
	r := &Report{Time: s.At, Operations: []Operation{}, Queues: []Queue{}, Storage: map[string]float64{}}
	for key, o := range s.operations() {
		o.since(old[key])
		r.Requests, r.Errors = r.Requests+o.requests/seconds, r.Errors+o.errors/seconds
		if o.requests > 0 {
			r.Operations = append(r.Operations, Operation{Service: o.service, Operation: o.name,
				Requests: o.requests / seconds, Errors: o.errors / seconds, Mean: o.seconds / o.requests,
				P50: o.quantile(.5), P99: o.quantile(.99), Sent: o.bytes / seconds})
		}
	}
	slices.SortFunc(r.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Service+a.Operation, b.Service+b.Operation))
	})
	r.Busy = len(r.Operations)
	r.Operations = r.Operations[:min(len(r.Operations), rows)]
	age := map[[2]string]float64{}
	for _, m := range s.families["lazuli_queue_oldest_age_seconds"].GetMetric() {
		age[[2]string{label(m, "account"), label(m, "queue")}] = m.GetGauge().GetValue()
	}
	for _, m := range s.families["lazuli_queue_messages"].GetMetric() {
		q := Queue{Account: label(m, "account"), Queue: label(m, "queue"), Messages: m.GetGauge().GetValue()}
		if oldest, ok := age[[2]string{q.Account, q.Queue}]; ok {
			q.Oldest = &oldest
		}
		if q.Messages > 0 {
			r.Queues = append(r.Queues, q)
		}
	}
	slices.SortStableFunc(r.Queues, func(a, b Queue) int { return cmp.Compare(b.Messages, a.Messages) })
	r.Queues = r.Queues[:min(len(r.Queues), rows)]
	for _, m := range s.families["lazuli_storage_bytes"].GetMetric() {
		r.Storage[label(m, "part")] = m.GetGauge().GetValue()
	}
	// What is in the tier alone takes no room on this disk: it is a line of its own.
	for _, m := range s.families["lazuli_content_tier_bytes"].GetMetric() {
		if label(m, "where") == "remote" {
			r.Storage["content in the tier alone"] = m.GetGauge().GetValue()
		}
	}
	for _, m := range s.families["lazuli_disk_free_bytes"].GetMetric() {
		r.DiskFree = m.GetGauge().Value
	}
	return r
}

// Write prints the report as tables.
func (r *Report) Write(w io.Writer) {
	span := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	atMost := func(seconds float64) string {
		if seconds == 0 {
			return ">10s"
		}
		return "≤" + span(seconds).String()
	}
	fmt.Fprintf(w, "%s  %.0f requests/s, %.0f errors/s, %d operations\n\n", r.Time.Format(time.TimeOnly), r.Requests,
		r.Errors, r.Busy)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "requests/s\terrors/s\tmean\tp50\tp99\tMB/s sent\t  operation")
	for _, o := range r.Operations {
		fmt.Fprintf(tw, "%.1f\t%.1f\t%v\t%s\t%s\t%.2f\t  %s %s\n", o.Requests, o.Errors,
			span(o.Mean).Round(time.Microsecond), atMost(o.P50), atMost(o.P99), o.Sent/1e6, o.Service,
			cmp.Or(o.Operation, "(refused)"))
	}
	_ = tw.Flush() // the buffer of the screen takes everything
	if len(r.Queues) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "messages\toldest\t  queue")
		for _, q := range r.Queues {
			oldest := "-"
			if q.Oldest != nil {
				oldest = span(*q.Oldest).Truncate(time.Second).String()
			}
			fmt.Fprintf(tw, "%.0f\t%s\t  %s/%s\n", q.Messages, oldest, q.Account, q.Queue)
		}
		_ = tw.Flush()
	}
	fmt.Fprintln(w)
	for _, part := range slices.Sorted(maps.Keys(r.Storage)) {
		fmt.Fprintf(w, "%s %.1f MB  ", part, r.Storage[part]/1e6)
	}
	if r.DiskFree != nil {
		fmt.Fprintf(w, "disk free %.1f GB", *r.DiskFree/1e9)
	}
	fmt.Fprintln(w)
}
