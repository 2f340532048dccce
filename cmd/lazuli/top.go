package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/server/config"
)

// newTopCommand makes `lazuli top`, which shows the rates of a running server.
func newTopCommand(m *Main) *cobra.Command {
	var every time.Duration
	var count, rows int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the rates, latencies, queues and sizes of a running server, again and again",
		Long: `Show what a running server does: requests per second, errors, latencies and bytes by operation, the longest queues, and sizes on disk. It reads the
metrics of the admin listener, which --admin-host and --admin-port name, and ends with Ctrl-C.`,
		Args: cobra.NoArgs,
	}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks, over which rates are taken")
	cmd.Flags().IntVarP(&count, "count", "n", 0,
		"number of tables, printed one below the other (default: without end, on a cleared screen)")
	cmd.Flags().IntVar(&rows, "rows", 15, "maximum number of operations, and of queues")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 10*time.Millisecond || rows < 1 || count < 0 {
			return usageError{errors.New("--every must be at least 10ms, --rows at least 1, and --count not negative")}
		}
		listener, err := adminAddress(m, cmd)
		if err != nil {
			return err
		}
		before, err := readSample(cmd.Context(), listener)
		for n := 0; err == nil && (count == 0 || n < count); n++ {
			select {
			case <-cmd.Context().Done():
				return nil
			case <-time.After(every):
			}
			var now *sample
			if now, err = readSample(cmd.Context(), listener); err != nil {
				break
			}
			var screen bytes.Buffer
			if count == 0 {
				screen.WriteString("\x1b[H\x1b[2J")
			}
			now.write(&screen, before, rows)
			if _, err := cmd.OutOrStdout().Write(screen.Bytes()); err != nil {
				return err
			}
			before = now
		}
		if cmd.Context().Err() != nil {
			return nil
		}
		return err
	}
	return cmd
}

// sample is the metrics of a server at one time.
type sample struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

func readSample(ctx context.Context, from adminListener) (*sample, error) {
	body, err := from.send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	return parseMetrics(body)
}

func parseMetrics(text []byte) (*sample, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	return &sample{time.Now(), families}, err
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// operationFigures are counts of an operation: those of a sample, or the difference of two.
type operationFigures struct {
	service, name                    string
	requests, errors, bytes, seconds float64
	buckets                          map[float64]float64
}

func (s *sample) operations() map[string]*operationFigures {
	all := map[string]*operationFigures{}
	of := func(m *dto.Metric) *operationFigures {
		key := label(m, "service") + " " + label(m, "operation")
		if all[key] == nil {
			all[key] = &operationFigures{service: label(m, "service"), name: label(m, "operation"),
				buckets: map[float64]float64{}}
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
func (o *operationFigures) since(before *operationFigures) {
	if before == nil {
		return
	}
	o.requests, o.errors, o.bytes, o.seconds = o.requests-before.requests, o.errors-before.errors, o.bytes-before.bytes,
		o.seconds-before.seconds
	for limit, n := range before.buckets {
		o.buckets[limit] -= n
	}
}

// quantile is the upper bound of the bucket with the share q of the requests, in seconds.
func (o *operationFigures) quantile(q float64) string {
	limits := make([]float64, 0, len(o.buckets))
	for l := range o.buckets {
		limits = append(limits, l)
	}
	slices.Sort(limits)
	for _, l := range limits {
		if o.buckets[l] >= q*o.requests && !math.IsInf(l, 1) {
			return "≤" + time.Duration(l*float64(time.Second)).String()
		}
	}
	return ">10s"
}

// write prints the rates since before.
func (s *sample) write(w io.Writer, before *sample, rows int) {
	seconds := s.at.Sub(before.at).Seconds()
	old := before.operations()
	var busy []*operationFigures
	var requests, failed float64
	for key, o := range s.operations() {
		o.since(old[key])
		requests, failed = requests+o.requests, failed+o.errors
		if o.requests > 0 {
			busy = append(busy, o)
		}
	}
	slices.SortFunc(busy, func(a, b *operationFigures) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), strings.Compare(a.service+a.name, b.service+b.name))
	})
	fmt.Fprintf(w, "%s  %.0f requests/s, %.0f errors/s, %d operations\n\n", s.at.Format(time.TimeOnly), requests/seconds,
		failed/seconds, len(busy))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "requests/s\terrors/s\tmean\tp50\tp99\tMB/s sent\t  operation")
	for _, o := range busy[:min(len(busy), rows)] {
		mean := time.Duration(o.seconds / o.requests * float64(time.Second)).Round(time.Microsecond)
		fmt.Fprintf(tw, "%.1f\t%.1f\t%v\t%s\t%s\t%.2f\t  %s %s\n", o.requests/seconds, o.errors/seconds, mean, o.quantile(.5),
			o.quantile(.99), o.bytes/seconds/1e6, o.service, cmp.Or(o.name, "(refused)"))
	}
	_ = tw.Flush() // the buffer of the screen takes everything
	s.writeQueues(w, rows)
	fmt.Fprintln(w)
	for _, m := range s.families["lazuli_storage_bytes"].GetMetric() {
		fmt.Fprintf(w, "%s %.1f MB  ", label(m, "part"), m.GetGauge().GetValue()/1e6)
	}
	for _, m := range s.families["lazuli_disk_free_bytes"].GetMetric() {
		fmt.Fprintf(w, "disk free %.1f GB", m.GetGauge().GetValue()/1e9)
	}
	fmt.Fprintln(w)
}

// writeQueues prints the longest queues that have messages.
func (s *sample) writeQueues(w io.Writer, rows int) {
	age := map[string]float64{}
	for _, m := range s.families["lazuli_queue_oldest_age_seconds"].GetMetric() {
		age[label(m, "account")+"/"+label(m, "queue")] = m.GetGauge().GetValue()
	}
	list := slices.Clone(s.families["lazuli_queue_messages"].GetMetric())
	list = slices.DeleteFunc(list, func(m *dto.Metric) bool { return m.GetGauge().GetValue() == 0 })
	slices.SortStableFunc(list, func(a,
		b *dto.Metric) int {
		return cmp.Compare(b.GetGauge().GetValue(), a.GetGauge().GetValue())
	})
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "messages\toldest\t  queue")
	for _, m := range list[:min(len(list), rows)] {
		name, oldest := label(m, "account")+"/"+label(m, "queue"), "-"
		if seconds, ok := age[name]; ok {
			oldest = (time.Duration(seconds) * time.Second).String()
		}
		fmt.Fprintf(tw, "%.0f\t%s\t  %s\n", m.GetGauge().GetValue(), oldest, name)
	}
	_ = tw.Flush()
}
