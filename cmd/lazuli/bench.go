package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
)

// newBenchCommand makes `lazuli bench`, the load generator.
func newBenchCommand() *cobra.Command {
	cmd, cfg := bench.NewCommand(thisProgram)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if quiet, err := cmd.Flags().GetBool("quiet"); err == nil && !quiet {
			defer showBench(cmd, cfg)()
		}
		err := run(cmd, args)
		if errors.As(err, new(bench.SettingsError)) {
			err = console.Usage(err)
		}
		return err
	}
	return cmd
}

// showBench shows at a terminal how much of a run is done, until the returned function is called.
func showBench(cmd *cobra.Command, cfg *bench.Config) (end func()) {
	measuring, loading := console.NewMeter(cmd, "measured", nil), console.NewMeter(cmd, "", console.CountUnit)
	if measuring == nil {
		return func() {}
	}
	cfg.Measured = func(done, total time.Duration) { loading.End(); measuring.At(int64(done), int64(total)) }
	cfg.Loaded = func(what string, done, total int) {
		measuring.End()
		loading.Begin("loaded " + what)
		loading.At(int64(done), int64(total))
	}
	end = func() { measuring.End(); loading.End() }
	cfg.Progress = console.Above{Writer: cmd.ErrOrStderr(), End: end}
	return end
}

// thisProgram returns a function that makes commands of this program, without the options that the environment gives to
// this process.
func thisProgram() (func(args ...string) *exec.Cmd, error) {
	self, err := os.Executable()
	return func(args ...string) *exec.Cmd { return lazuliCommand(self, args...) }, err
}

func lazuliCommand(self string, args ...string) *exec.Cmd {
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "lazuli"
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LAZULI_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}
