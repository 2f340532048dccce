package main

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes. A second signal exits with 128 plus the signal's number.
const (
	exitOK      = 0
	exitFailure = 1 // whatever has no code of its own
	exitUsage   = 2 // the command line, the environment or the configuration file is wrong
)

// usageError is a mistake in what the user asked for, as opposed to a failure in doing it.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode maps an error to the process's exit code. This is the only place that does.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)):
		return exitUsage
	default:
		return exitFailure
	}
}

// report prints err, if there is one, and returns its exit code.
func report(w io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(w, "lazuli: %v\n", err)
	}
	return exitCode(err)
}
