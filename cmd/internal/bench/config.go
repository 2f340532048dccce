package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

const listTotal = 10000

// Config says what to measure.
type Config struct {
	// Connection is the connection string of the first target; empty starts a stack of this binary with a new data
	// folder, thrown away afterwards.
	Connection string
	// Versus is the connection string of a second target, measured in turns with the first; empty for none.
	Versus string
	// Workloads are names or globs; none means all that are not Extra.
	Workloads []string
	// Duration is the measured time per workload and target, Slice the length of one turn, Warmup the time before the
	// first counted slice.
	Duration, Slice, Warmup time.Duration
	// Connections is the number of parallel connections per target.
	Connections int
	Preload     Preload
	// Seed decides the random choices: the same seed makes the same requests.
	Seed uint64
	// MaxErrors ends a workload on a target once more operations than this have failed.
	MaxErrors int
	// ServerPID and VersusPID are the servers' process ids for memory readings, 0 when unknown.
	ServerPID, VersusPID int
	// Command returns a command of lazuli.
	Command func(args ...string) *exec.Cmd
	// ServeArgs are passed on to `serve` of the started stack.
	ServeArgs []string
	// TempDir holds the started stack's data folder; empty is the system's temporary directory.
	TempDir string
	// Restart stops the started stack at the end and measures how long it takes to come back on its data.
	Restart bool
	// Progress receives progress messages; nil discards them.
	Progress io.Writer
	// Measured, if set, receives the time that was measured, and that which is to be measured in the whole run.
	Measured func(done, total time.Duration)
	// Loaded, if set, receives how many things of a data set are stored, and how many there will be.
	Loaded func(what string, done, total int)

	// floor starts the floor, the third target; nil for none. Only [AddFloor] sets it, so that programs without it do not
	// link the floor.
	floor func() (*killrig.Process, *Target, error)
	// cluster starts a cluster as the second target, and returns what stops it; nil for none. It is set as floor is.
	cluster func(context.Context) (*Target, func(), error)
}

// Preload says how much each data set holds before its workload is measured.
type Preload struct {
	Entities int `json:"entities"`
	Messages int `json:"messages"`
	Blobs    int `json:"blobs"`
}

// DefaultPreload is enough for the figures not to come from a CPU cache, and quick to load into any target.
var DefaultPreload = Preload{Entities: 10_000, Messages: 10_000, Blobs: listTotal}

// ParsePreload reads "N" for all data sets, or "entities=N,messages=N,blobs=N" with the defaults for those left out;
// the empty string is DefaultPreload.
func ParsePreload(s string) (Preload, error) {
	p := DefaultPreload
	if s == "" {
		return p, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return Preload{Entities: n, Messages: n, Blobs: n}, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		dst := map[string]*int{"entities": &p.Entities, "messages": &p.Messages, "blobs": &p.Blobs}[name]
		if err != nil || n < 0 || dst == nil {
			return p, fmt.Errorf("preload %q: want N, or entities=N,messages=N,blobs=N", s)
		}
		*dst = n
	}
	return p, nil
}

// SettingsError means that a Config is not valid. The run has not started.
type SettingsError struct{ Cause error }

func (e SettingsError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e SettingsError) Unwrap() error { return e.Cause }

func (c *Config) progress(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// validate names the field that makes no sense.
func (c *Config) validate() error {
	switch {
	case c.Duration <= 0:
		return errors.New("duration must be positive")
	case c.Slice <= 0:
		return errors.New("slice must be positive")
	case c.Warmup < 0:
		return errors.New("warmup must not be negative")
	case c.Connections < 1 || c.Connections > 10_000:
		return errors.New("connections must be between 1 and 10,000")
	case c.MaxErrors < 0:
		return errors.New("max-errors must not be negative")
	case c.Restart && c.Connection != "":
		return errors.New("restart needs a stack started by the run: leave the connection string out")
	}
	return nil
}
