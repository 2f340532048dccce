// Command lazuli runs the Azure-compatible storage services and the worker roles, and carries the verbs around them.
//
// This package parses flags, wires and waits. Each verb has its file; what the verbs do lives in the packages that
// they call. [Main] is a whole run of the program, so that tests run it in process.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first, _ := (<-signals).(syscall.Signal)
		cancel(console.Signalled{Signal: first})
		if s, ok := (<-signals).(syscall.Signal); ok { // asked twice: at once
			os.Exit(exitSignal + int(s))
		}
		os.Exit(exitFailure)
	}()
	m := Main{Args: verbOf(os.Args), Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(m.Run(ctx))
}

// verbOf returns the arguments of the program. Under the name of one of Azurite's programs it is that program, and
// under the name func, that of Core Tools, it is the verb func.
func verbOf(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	for _, svc := range serve.Services {
		if name == "azurite-"+svc.Service.String() {
			return append([]string{name}, args[1:]...)
		}
	}
	if name == "func" {
		return append([]string{name}, args[1:]...)
	}
	return args[1:]
}

// Main is one run of the program.
type Main struct {
	// Args are the arguments without the program's name.
	Args []string
	// Environ is the environment as "name=value".
	Environ []string
	// Stdout takes results, Stderr logs and errors.
	Stdout, Stderr io.Writer

	start serve.Starter // tests only; nil is startStack
}

// Run executes the verb that Args name and returns the exit code. Cancelling ctx asks for an orderly stop.
func (m *Main) Run(ctx context.Context) int {
	root := newRootCommand(m)
	root.SetArgs(m.Args)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) {
		err = console.Interrupted(ctx, err, "")
	}
	return report(m.Stderr, err)
}
