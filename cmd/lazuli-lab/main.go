// Command lazuli-lab has what only the project runs: servers that are killed, paused and damaged under load while
// models check every answer (chaos), and measurements beside the ceiling of the machine (bench --floor). The shipped
// binary contains none of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// Exit codes.
const (
	exitFailure = 1 // an error, or a broken promise
	exitUsage   = 2 // the command line is wrong
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l := &lab{}
	defer l.close()
	err := newRootCommand(l).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lazuli-lab:", err)
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(bench.SettingsError)):
		return exitUsage
	}
	return exitFailure
}

// newRootCommand builds the tree of verbs.
func newRootCommand(l *lab) *cobra.Command {
	root := &cobra.Command{
		Use:           "lazuli-lab",
		Short:         "Break and measure Lazuli",
		SilenceErrors: true, // run reports them
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return bench.SettingsError{Cause: err} })
	root.PersistentFlags().StringVar(&l.program, "lazuli", "",
		"the lazuli program to run (default: the one beside lazuli-lab or, in a checkout, one that is built from it)")
	measure, cfg := bench.NewCommand(l.command)
	bench.AddFloor(measure, cfg)
	measure.AddCommand(newWorkersCommand(l), newNodesCommand(l))
	root.AddCommand(newChaosCommand(l), measure)
	return root
}

// lab finds the program that the verbs run.
type lab struct {
	program string
	built   string // a folder with a program that was built; empty for none
}

// command returns a function that makes commands of lazuli, without the options that the environment gives to this
// process.
func (l *lab) command() (func(args ...string) *exec.Cmd, error) {
	if l.program == "" {
		if err := l.find(); err != nil {
			return nil, err
		}
	}
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command(l.program, args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "LAZULI_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		return cmd
	}, nil
}

func (l *lab) find() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if neighbour := filepath.Join(filepath.Dir(self), "lazuli"); neighbour != self {
		if _, err := os.Stat(neighbour); err == nil {
			l.program = neighbour
			return nil
		}
	}
	if l.built, err = os.MkdirTemp("", "lazuli-lab-"); err != nil {
		return err
	}
	l.program, err = killrig.Build(l.built)
	return err
}

func (l *lab) close() {
	if l.built != "" {
		_ = os.RemoveAll(l.built)
	}
}
