// Program peers measures Lazuli beside other systems, in turns, and prints a table of jobs, one of workflows, and one
// of messages and rows. .ci/peers builds and runs it: its modules are not those of the command.
//
// Every system syncs what it acknowledges to the disk, but for that which says everysec. Each measurement is a process
// of its own, with new data; the processor time is that of servers and client together, and of messages and rows that
// of the server.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
	"github.com/lazuli-storage/lazuli/internal/gctuner"
)

// system is what is measured.
type system struct {
	name string
	// measure measures it with data in a folder.
	measure func(ctx context.Context, folder string, m *workbench.Meter) error
}

var systems = []system{
	{"Lazuli", lazuli(false)},
	{"Lazuli, one process", lazuli(true)},
	{"Lazuli, gRPC", lazuliByGRPC},
	{"River, PostgreSQL", riverOnPostgres},
	{"River, SQLite, one process", riverOnSQLite},
	{"asynq, Redis always", asynqOnRedis("always")},
	{"asynq, Redis everysec", asynqOnRedis("everysec")},
	{"JetStream, sync always", jetStream},
	{"go-workflows, SQLite", goWorkflows},
	{"durabletask-go, SQLite", durableTask},
	{"Lazuli, requests", lazuliStores},
	{"PostgreSQL, rows", postgresStores},
	{"Redis Streams, sync always", redisStreams},
	{"RabbitMQ, quorum queue", rabbitQueues},
}

var (
	numbers workbench.Numbers
	binary  = flag.String("lazuli", "", "the program lazuli")
	rounds  = flag.Int("rounds", 1, "how often each system has its turn")
	only    = flag.String("only", "", "measure the systems whose names contain one of these words, separated by |")
	child   = flag.String("child", "", "measure one system, and print its rows as JSON")
	folder  = flag.String("temp-dir", "", "directory for data (default: the system's temporary directory)")
	seconds = flag.Duration("seconds", 3*time.Second, "time of each kind of request for messages and rows, in a turn")
)

func main() {
	flag.IntVar(&numbers.Jobs, "jobs", 10_000, "jobs that are put, and then handled, in a turn")
	flag.IntVar(&numbers.Delayed, "delayed", 5000, "jobs that are due at once, in a turn")
	flag.IntVar(&numbers.Wakes, "wakes", 200, "most jobs for an idle worker, in a turn")
	flag.IntVar(&numbers.Workflows, "workflows", 200, "workflows of each kind, in a turn")
	flag.Parse()
	if len(os.Args) == 3 && os.Args[1] == natsArgument {
		exit(serveNATS(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *child != "" {
		exit(measureOne(ctx))
	}
	exit(measureAll(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measureOne is the process of a measurement.
func measureOne(ctx context.Context) error {
	i := slices.IndexFunc(systems, func(s system) bool { return s.name == *child })
	if i < 0 {
		return fmt.Errorf("no system %q", *child)
	}
	if strings.HasPrefix(*child, "Lazuli") {
		defer gctuner.Default.Start()() // as App.Run does
	}
	dir, err := os.MkdirTemp(*folder, "lazuli-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL does not run as root
		return err
	}
	m := &workbench.Meter{N: numbers, Processor: func() time.Duration { return bench.ProcessorTime(os.Getpid()) }}
	if err := systems[i].measure(ctx, dir, m); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m.Rows)
}

// measureAll measures all systems in turns, and prints the tables.
func measureAll(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	results := map[string][]workbench.Row{}
	for round := range *rounds {
		for _, s := range systems {
			if !wanted(s.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d: %s\n", 1+round, s.name)
			var out bytes.Buffer
			cmd := exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "-child", s.name)...)
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			var rows []workbench.Row
			if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			results[s.name] = merged(results[s.name], rows)
		}
	}
	return write(results)
}

func wanted(name string) bool {
	return *only == "" || slices.ContainsFunc(strings.Split(*only, "|"), func(word string) bool {
		return strings.Contains(name, word)
	})
}

// merged adds the rows of a further turn.
func merged(all, more []workbench.Row) []workbench.Row {
	for _, r := range more {
		i := slices.IndexFunc(all, func(a workbench.Row) bool { return a.Name == r.Name })
		if i < 0 {
			all = append(all, r)
			continue
		}
		a := &all[i]
		a.Processor = (a.Processor*time.Duration(a.N) + r.Processor*time.Duration(r.N)) / time.Duration(a.N+r.N)
		a.N, a.Took = a.N+r.N, a.Took+r.Took
		if a.Rate > 0 {
			a.Rate = float64(a.N) / a.Took.Seconds()
		}
		if len(a.Latencies) > 0 {
			a.SetLatencies(append(a.Latencies, r.Latencies...))
		}
	}
	return all
}

// write prints the tables, in Markdown.
func write(results map[string][]workbench.Row) error {
	for _, work := range []string{"jobs", "workflows", "messages and rows"} {
		// The columns are the systems with a row of this table. Systems and rows stay in the order in which they were run.
		var names, titles []string
		for _, s := range systems {
			for _, r := range results[s.name] {
				if tableOf(r.Name) != work {
					continue
				}
				if !slices.Contains(names, s.name) {
					names = append(names, s.name)
				}
				if !slices.Contains(titles, r.Name) {
					titles = append(titles, r.Name)
				}
			}
		}
		if len(names) == 0 {
			continue
		}
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
		fmt.Fprintf(w, "| %s\t| %s\t|\n|%s\n", work, strings.Join(names, "\t| "), strings.Repeat(" ---\t|", 1+len(names)))
		for _, title := range titles {
			fmt.Fprintf(w, "| %s", title)
			for _, name := range names {
				cell := ""
				for _, r := range results[name] {
					if r.Name == title {
						cell = text(r)
					}
				}
				fmt.Fprintf(w, "\t| %s", cell)
			}
			fmt.Fprintln(w, "\t|")
		}
		fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// tableOf returns the table that has a row.
func tableOf(row string) string {
	switch {
	case strings.HasPrefix(row, "chain"), strings.HasPrefix(row, "fan-out"):
		return "workflows"
	case strings.Contains(row, " connection"):
		return "messages and rows"
	}
	return "jobs"
}

// text is the cell of a row: what was done in a second, and the processor time of each.
func text(r workbench.Row) string {
	short := func(d time.Duration) string {
		switch {
		case d < 10*time.Microsecond:
			return fmt.Sprintf("%.2g µs", float64(d.Nanoseconds())/1000)
		case d < time.Millisecond:
			return fmt.Sprintf("%d µs", d.Microseconds())
		case d < time.Second:
			return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
		}
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	switch {
	case r.Rate > 0:
		return fmt.Sprintf("%.0f/s, %s", r.Rate, short(r.Processor))
	case r.P50 > 0:
		return fmt.Sprintf("p50 %s, p99 %s", short(r.P50), short(r.P99))
	}
	return short(r.Took / time.Duration(r.N))
}
