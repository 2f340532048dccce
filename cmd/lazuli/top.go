package main

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/top"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newTopCommand makes `lazuli top`, which shows the rates of a running server.
func newTopCommand(m *Main) *cobra.Command {
	var every time.Duration
	var count, rows int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Continuously show the rates, latencies, queues and sizes of a running server",
		Long: `Show what a running server does: requests per second, errors, latencies and bytes by operation, the longest queues, and sizes on disk. It reads the
metrics of the admin listener, which --admin-host and --admin-port name, and ends with Ctrl-C.`,
		Args: cobra.NoArgs,
	}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	asJSON := cmd.Flags().Bool("json", false, "for each look")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "sampling interval; rates are means over it")
	cmd.Flags().IntVarP(&count, "count", "n", 0,
		"number of tables, printed one below the other (default: without end, at a terminal on a cleared screen)")
	cmd.Flags().IntVar(&rows, "rows", 15, "maximum number of operations, and of queues")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 10*time.Millisecond || rows < 1 || count < 0 {
			return console.Usagef("--every must be at least 10ms, --rows at least 1, and --count not negative")
		}
		listener, err := target.Admin(m.Environ, cmd)
		if err != nil {
			return err
		}
		clear := count == 0 && !*asJSON && console.Screen(cmd.OutOrStdout())
		// Rates are differences of counters, so the first table comes after the second sample.
		before, err := readSample(cmd.Context(), listener)
		for n := 0; err == nil && (count == 0 || n < count); n++ {
			select {
			case <-cmd.Context().Done():
				return nil
			case <-time.After(every):
			}
			var now *top.Sample
			if now, err = readSample(cmd.Context(), listener); err != nil {
				break
			}
			report := now.Report(before, rows)
			before = now
			if *asJSON {
				err = console.JSONLines(cmd.OutOrStdout()).Encode(report)
				continue
			}
			// One write for the whole screen: a terminal would flicker between the clearing and the lines.
			var text bytes.Buffer
			if clear {
				text.WriteString("\x1b[H\x1b[2J")
			}
			report.Write(&text)
			_, err = cmd.OutOrStdout().Write(text.Bytes())
		}
		// Ctrl-C is how this verb ends, and no failure.
		if cmd.Context().Err() != nil {
			return nil
		}
		return err
	}
	return cmd
}

func readSample(ctx context.Context, from target.AdminListener) (*top.Sample, error) {
	body, err := from.Send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	return top.Parse(body)
}
