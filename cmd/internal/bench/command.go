package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// NewCommand makes the verb bench, the load generator. The Config is what its flags set. lazuli returns the function
// that makes commands of lazuli. Wrong settings are a [SettingsError].
func NewCommand(lazuli func() (func(args ...string) *exec.Cmd, error)) (*cobra.Command, *Config) {
	cfg := &Config{}
	var preload, jsonFile, svgFile, drawn string
	var list, quiet bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a Blob, Queue and Table endpoint: operations per second and latencies",
		Long: `Measure any Azure-compatible endpoints: Lazuli, Azurite or Azure itself.

Without --connection-string, bench starts a Lazuli server on free ports with a temporary data folder, and
removes both at the end. It creates resources with unique names and deletes them.

--vs adds a second set of endpoints. Both take turns in short slices, so that noise on the machine falls on
both alike.`,
		Example: `  lazuli bench
  lazuli bench --workload 'entity-*,point-get' --duration 10s --json result.json
  lazuli bench --connection-string UseDevelopmentStorage=true --server-pid 4711
  lazuli bench --preload entities=1000000 --workload point-get --restart`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// These two need no server, so they come before the flags about one are read.
			if list {
				return listWorkloads(cmd.OutOrStdout())
			}
			if drawn != "" {
				if svgFile == "" {
					return SettingsError{Cause: errors.New("--draw draws a report: name the figure's file with --svg")}
				}
				report, err := ReadReport(drawn)
				if err != nil {
					return err
				}
				return writeSVG(report, svgFile)
			}
			var err error
			if cfg.Preload, err = ParsePreload(preload); err != nil {
				return SettingsError{Cause: err}
			}
			if cfg.Command, err = lazuli(); err != nil {
				return err
			}
			if !quiet && cfg.Progress == nil {
				cfg.Progress = cmd.ErrOrStderr()
			}
			// A report may come with an error: what was measured before an interruption is still written.
			report, err := Run(cmd.Context(), *cfg)
			if report == nil {
				return err
			}
			if svgFile != "" {
				err = errors.Join(err, writeSVG(report, svgFile))
			}
			return errors.Join(err, writeBenchReport(report, cmd.OutOrStdout(), jsonFile))
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Connection, "connection-string", "",
		"endpoints to measure; UseDevelopmentStorage=true is accepted (default: a server that bench starts)")
	f.StringVar(&cfg.Versus, "vs", "", "connection string of a second target, measured in turns with the first")
	f.StringSliceVarP(&cfg.Workloads, "workload", "w", nil,
		"workloads to run, by name or glob (default: all but the extra ones, see --list)")
	f.BoolVar(&list, "list", false, "list the workloads and end")
	f.DurationVarP(&cfg.Duration, "duration", "d", 5*time.Second, "measured time per workload and target")
	f.DurationVar(&cfg.Slice, "slice", 500*time.Millisecond, "length of one target's turn")
	f.DurationVar(&cfg.Warmup, "warmup", 500*time.Millisecond, "time before the first counted slice")
	f.IntVarP(&cfg.Connections, "connections", "c", 32, "parallel connections per target")
	f.StringVar(&preload, "preload", "",
		"data to store before measuring: N, or entities=N,messages=N,blobs=N (default 10000 each)")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of the random choices")
	f.IntVar(&cfg.MaxErrors, "max-errors", 1000, "number of failed operations after which a workload is stopped")
	f.StringVar(&jsonFile, "json", "",
		"write the report as JSON to this file; - writes it to standard output instead of the table")
	f.StringVar(&svgFile, "svg", "", "draw the rates as a figure in this file")
	f.StringVar(&drawn, "draw", "", "measure nothing: draw the report in this file, which --json wrote")
	f.IntVar(&cfg.ServerPID, "server-pid", 0, "process id of the server, to report its memory")
	f.IntVar(&cfg.VersusPID, "vs-pid", 0, "process id of the second target's server")
	f.StringArrayVar(&cfg.ServeArgs, "serve-arg", nil,
		"argument for the server that bench starts, such as --durability=relaxed (repeatable)")
	f.StringVar(&cfg.TempDir, "temp-dir", "",
		"directory for the data folder of the server that bench starts (default: the system's temporary directory)")
	f.BoolVar(&cfg.Restart, "restart", false,
		"at the end, restart the server on its data and report the time until it is ready")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not show progress on standard error")
	return cmd, cfg
}

func listWorkloads(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, wl := range Catalogue() {
		about := wl.About
		if wl.Extra {
			about += " (extra)"
		}
		fmt.Fprintf(tw, "%s\t%s\n", wl.Name, about)
	}
	return tw.Flush()
}

// writeBenchReport prints the table, and the JSON where it was asked for.
func writeBenchReport(r *Report, out io.Writer, jsonFile string) error {
	if jsonFile == "-" {
		return r.WriteJSON(out)
	}
	if jsonFile != "" {
		var b strings.Builder
		if err := r.WriteJSON(&b); err != nil {
			return err
		}
		if err := os.WriteFile(jsonFile, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return r.WriteTable(out)
}

// writeSVG writes the figure to a file.
func writeSVG(r *Report, name string) error {
	var b strings.Builder
	if err := r.WriteSVG(&b); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
