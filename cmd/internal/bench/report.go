package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	Started     time.Time         `json:"started"`
	Machine     Machine           `json:"machine"`
	Connections int               `json:"connections"`
	DurationS   float64           `json:"duration_s"`
	SliceS      float64           `json:"slice_s"`
	Seed        uint64            `json:"seed"`
	Preload     Preload           `json:"preload"`
	ServeArgs   []string          `json:"serve_args,omitempty"`
	Targets     []*TargetReport   `json:"targets"`
	Workloads   []*WorkloadReport `json:"workloads"`
}

// Machine says where the figures come from.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPU  string `json:"cpu,omitempty"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// TargetReport describes one target. Memory is zero if the process is unknown.
type TargetReport struct {
	Name  string `json:"name"`
	Table string `json:"table_endpoint"`
	// ReadyMS is the time from the start of the process to its first good /readyz, on an empty data folder; 0 for a
	// target that was running already. RestartMS is the same on the data of the run.
	ReadyMS   float64 `json:"ready_ms,omitempty"`
	RestartMS float64 `json:"restart_ms,omitempty"`
	Idle      Memory  `json:"idle"`
	After     Memory  `json:"after"`
	Restarted Memory  `json:"restarted"`
}

// WorkloadReport is one workload on all targets.
type WorkloadReport struct {
	Name        string    `json:"name"`
	About       string    `json:"about"`
	Connections int       `json:"connections"`
	Unit        string    `json:"unit,omitempty"`
	Results     []*Result `json:"results"`
}

// Result is one workload on one target. Latencies are in microseconds.
type Result struct {
	Target    string            `json:"target"`
	Ops       uint64            `json:"ops"`
	OpsPerS   float64           `json:"ops_per_s"`
	ItemsPerS float64           `json:"items_per_s,omitempty"`
	MiBPerS   float64           `json:"mib_per_s,omitempty"`
	MeanUS    float64           `json:"mean_us"`
	P50US     float64           `json:"p50_us"`
	P90US     float64           `json:"p90_us"`
	P99US     float64           `json:"p99_us"`
	P999US    float64           `json:"p999_us"`
	MaxUS     float64           `json:"max_us"`
	Errors    map[string]uint64 `json:"errors,omitempty"`
	// CPUUS is the server's processor time per operation, which noise on the machine disturbs less than rates; 0 when
	// its process is not known.
	CPUUS float64 `json:"cpu_us,omitempty"`
	// FloorShare is this rate divided by the floor's, 0 without a floor.
	FloorShare float64 `json:"floor_share,omitempty"`
	// Ratio is the first target's rate divided by this one's, 0 without a second target.
	Ratio  float64       `json:"ratio,omitempty"`
	Memory Memory        `json:"memory"`
	Slices []sliceResult `json:"slices"`
	Failed string        `json:"failed,omitempty"`
}

func newReport(cfg *Config, envs []*env, server *stackServer) *Report {
	r := &Report{
		Started: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Connections: cfg.Connections,
		DurationS: cfg.Duration.Seconds(), SliceS: cfg.Slice.Seconds(), Seed: cfg.Seed, Preload: cfg.Preload,
		ServeArgs: cfg.ServeArgs,
	}
	for _, e := range envs {
		ep := e.target.Stack.Endpoints[Table]
		r.Targets = append(r.Targets, &TargetReport{Name: e.target.Name, Table: ep.Host + ep.Base,
			Idle: ReadMemory(e.target.PID)})
	}
	if server != nil {
		r.Targets[0].ReadyMS = milliseconds(server.Took)
	}
	return r
}

func thisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// add appends a measured workload; the floor, when measured, is the last measurement.
func (r *Report) add(w *Workload, ms []*measurement) {
	wr := &WorkloadReport{Name: w.Name, About: w.About, Unit: w.Unit}
	var floor float64
	for _, m := range ms {
		wr.Connections = max(wr.Connections, len(m.conns))
		res := m.result()
		if m.env.target.samples != nil {
			floor = res.OpsPerS
		}
		wr.Results = append(wr.Results, res)
	}
	for i, m := range ms {
		res := wr.Results[i]
		if floor > 0 {
			res.FloorShare = res.OpsPerS / floor
		}
		if i > 0 && m.env.target.samples == nil && res.OpsPerS > 0 {
			res.Ratio = wr.Results[0].OpsPerS / res.OpsPerS
		}
	}
	r.Workloads = append(r.Workloads, wr)
}

func (m *measurement) result() *Result {
	h, perS, errs := m.totals()
	w := m.workload
	res := &Result{
		Target: m.env.target.Name, Ops: h.Count(), OpsPerS: perS,
		ItemsPerS: perS * float64(w.Items), MiBPerS: perS * float64(w.Bytes) / (1 << 20),
		MeanUS: microseconds(h.Mean()), P50US: microseconds(h.Quantile(.5)), P90US: microseconds(h.Quantile(.9)),
		P99US: microseconds(h.Quantile(.99)), P999US: microseconds(h.Quantile(.999)), MaxUS: microseconds(h.Max()),
		Errors: errs, Memory: m.rss, Slices: m.slices,
	}
	if res.Ops > 0 {
		res.CPUUS = microseconds(m.cpu) / float64(res.Ops)
	}
	if m.failed != nil {
		res.Failed = m.failed.Error()
	}
	return res
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	// Columns that would be empty for each row are left out.
	floor, versus := false, len(r.Targets) > 1
	for _, wr := range r.Workloads {
		for _, res := range wr.Results {
			floor = floor || res.FloorShare > 0
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"workload", "target", "ops/s", "items/s", "MiB/s", "p50", "p99", "max", "errors", "CPU/op", "RSS"}
	if floor {
		head = append(head, "of floor")
	}
	if versus {
		// How many times as fast the first target is, in the row of the other.
		head = append(head, r.Targets[0].Name+" is")
	}
	fmt.Fprintln(tw, strings.Join(head, "\t")+"\t")
	for _, wr := range r.Workloads {
		for _, res := range wr.Results {
			row := []string{wr.Name, res.Target, number(res.OpsPerS), number(res.ItemsPerS), number(res.MiBPerS),
				latency(res.P50US), latency(res.P99US), latency(res.MaxUS), errorSum(res.Errors), latency(res.CPUUS),
				mebibytes(res.Memory.RSS)}
			if floor {
				row = append(row, share(res))
			}
			if versus {
				row = append(row, ratio(res.Ratio))
			}
			fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
		}
	}
	// The notes come below the table, and tabwriter writes only now.
	if err := tw.Flush(); err != nil {
		return err
	}
	r.writeNotes(w)
	return nil
}

// writeNotes prints what does not fit into the table.
func (r *Report) writeNotes(w io.Writer) {
	fmt.Fprintf(w, "\nCPU/op is processor time of the server, RSS its resident memory in MiB\n%d connections, %.3g s "+
		"per workload and target in slices of %.3g s; preloaded %d entities, %d messages, %d blobs; %d CPUs (%s)\n",
		r.Connections, r.DurationS, r.SliceS, r.Preload.Entities, r.Preload.Messages, r.Preload.Blobs, r.Machine.CPUs,
		r.Machine.CPU)
	for _, wr := range r.Workloads {
		// Only those with a limit of their own; the usual number stands in the line above.
		if wr.Connections != r.Connections {
			fmt.Fprintf(w, "%s: %d connections\n", wr.Name, wr.Connections)
		}
		for _, res := range wr.Results {
			// A workload that ended early has numbers of the time until then.
			if res.Failed != "" {
				fmt.Fprintf(w, "%s on %s: ended early: %s\n", wr.Name, res.Target, res.Failed)
			}
			for _, label := range sortedKeys(res.Errors) {
				fmt.Fprintf(w, "%s on %s: %d × %s\n", wr.Name, res.Target, res.Errors[label], label)
			}
		}
	}
	for _, t := range r.Targets {
		if t.ReadyMS > 0 {
			fmt.Fprintf(w, "%s: ready after %.0f ms\n", t.Name, t.ReadyMS)
		}
		if t.Idle.RSS > 0 {
			fmt.Fprintf(w, "%s: resident %s idle, %s after (%s of it mapped files), peak %s MiB\n", t.Name,
				mebibytes(t.Idle.RSS), mebibytes(t.After.RSS), mebibytes(t.After.File), mebibytes(t.After.Peak))
		}
		if t.RestartMS > 0 {
			fmt.Fprintf(w, "%s: ready again after %.0f ms on the data of this run, resident %s MiB\n", t.Name, t.RestartMS,
				mebibytes(t.Restarted.RSS))
		}
	}
}

func sortedKeys(m map[string]uint64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// number prints three significant digits, and no fraction from 100 on; nothing for zero.
func number(f float64) string {
	switch {
	case f == 0:
		return "-"
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// latency prints microseconds in the unit that reads best.
func latency(us float64) string {
	switch {
	case us == 0:
		return "-"
	case us < 1000:
		return fmt.Sprintf("%.0f µs", us)
	case us < 100_000:
		return fmt.Sprintf("%.1f ms", us/1000)
	case us < 1e6:
		return fmt.Sprintf("%.0f ms", us/1000)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}

func mebibytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", float64(n)/(1<<20))
}

func errorSum(m map[string]uint64) string {
	var n uint64
	for _, c := range m {
		n += c
	}
	return fmt.Sprint(n)
}

func share(res *Result) string {
	if res.FloorShare == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*res.FloorShare)
}

func ratio(f float64) string {
	if f == 0 {
		return "-"
	}
	return number(f) + "×"
}
