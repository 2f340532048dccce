package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/server"
)

// Exit codes. A second signal exits with 128 plus the signal's number.
const (
	exitOK      = 0
	exitFailure = 1 // other errors; a check that found problems
	exitUsage   = 2 // the command line, the environment or the configuration file is wrong
	exitPort    = 3 // a port is taken
	exitData    = 4 // the data folder is in use, not one of ours, or not usable
	exitLoss    = 5 // a repair could not keep everything
)

// usageError is a mistake in what the user asked for, as opposed to a failure in doing it.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errPortTaken is the error for an address that another process listens on.
var errPortTaken = server.ErrPortTaken

// exitCode maps an error to the process's exit code. This is the only place that does.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.Is(err, errPortTaken):
		return exitPort
	case errors.Is(err, datadir.ErrLocked), errors.Is(err, datadir.ErrFormat), errors.Is(err, datadir.ErrNotFound),
		errors.Is(err, datadir.ErrManifest),
		errors.As(err, new(*datadir.ContentError)), errors.As(err, new(*datadir.PathError)):
		return exitData
	case errors.Is(err, errLoss):
		return exitLoss
	default:
		return exitFailure
	}
}

// report prints err, if there is one, and returns its exit code.
func report(w io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(w, "lazuli: %s\n", explained(err))
	}
	return exitCode(err)
}
