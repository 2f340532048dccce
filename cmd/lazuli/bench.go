package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
)

// newBenchCommand makes `lazuli bench`, the load generator.
func newBenchCommand() *cobra.Command {
	cmd, _ := bench.NewCommand(thisProgram)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if errors.As(err, new(bench.SettingsError)) {
			err = usageError{err}
		}
		return err
	}
	return cmd
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
