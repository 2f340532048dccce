package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
	"github.com/lazuli-storage/lazuli/server"
)

// Exit codes. Work that a signal ended before it was done, and a second signal, exit with exitSignal plus the signal's
// number.
const (
	exitOK      = 0
	exitFailure = 1 // other errors; a check that found problems
	exitUsage   = 2 // the command line, the environment or the configuration file is wrong
	exitPort    = 3 // a port is taken
	exitData    = 4 // the data folder is in use, not one of ours, or not usable
	exitLoss    = 5 // a repair could not keep everything
	exitSignal  = 128
)

// errPortTaken is the error for an address that another process listens on.
var errPortTaken = server.ErrPortTaken

// exitCode maps an error to the process's exit code. This is the only place that does.
func exitCode(err error) int {
	var early *console.InterruptedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &early):
		return exitSignal + int(early.Signal)
	case errors.As(err, new(console.UsageError)), errors.Is(err, secretfile.ErrExposed), errors.Is(err,
		peering.ErrShortSecret):
		return exitUsage
	case errors.Is(err, errPortTaken):
		return exitPort
	case errors.Is(err, datadir.ErrLocked), errors.Is(err, datadir.ErrFormat), errors.Is(err, datadir.ErrNotFound),
		errors.Is(err, datadir.ErrManifest),
		errors.As(err, new(*datadir.ContentError)), errors.As(err, new(*datadir.PathError)),
		errors.As(err, new(*server.FolderError)):
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
