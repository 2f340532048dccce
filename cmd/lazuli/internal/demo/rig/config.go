package rig

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// WorkerSettings are the settings of a worker process.
type WorkerSettings struct {
	ConnectionString string
	// Queue has the messages. Current is the table in daily use, Archive the archive role's target, Container the
	// container of the other roles' blobs. Names that a role does not need are empty.
	Queue, Current, Archive, Container string
	// Kind is the kind of index that the table-index role maintains, or what feeds the index of the search-index role.
	Kind string
	// Folder is the place where the search-index role has its index.
	Folder string
	// Lease is the worker's lease on a message, Concurrency its maximum number of in-flight messages.
	Lease       time.Duration
	Concurrency int
	// MaxDequeueCount is the number of times that a message may be received before it counts as poison.
	MaxDequeueCount int
	// Fault is a fault plan in the form that package fault parses; empty means none.
	Fault string
	// Mistake is the ID of the mistake that the worker makes, and RunNaiveWorker runs; empty means none.
	Mistake string
	// Story means that a worker that sweeps does so once no message is left, which keeps what it does apart.
	Story bool
}

// Options are the settings as a queue trigger takes them.
func (s WorkerSettings) Options() []workers.QueueOption {
	return []workers.QueueOption{workers.WithQueueName(s.Queue), workers.WithLease(s.Lease),
		workers.WithConcurrency(s.Concurrency), workers.WithMaxDequeueCount(s.MaxDequeueCount)}
}

// Config describes a run of a demonstration.
type Config struct {
	ConnectionString string
	// Worker returns the command of a worker process, which must stop gracefully on SIGTERM.
	Worker func(WorkerSettings) *exec.Cmd
	// Points are the fault points to visit, and Frozen; nil means all.
	Points []string
	// Pairs visits every pair of fault points too: killed at the first, and the restarted process at the second.
	Pairs bool
	// SamplePairs, if not 0, visits only so many of the pairs, which the seed chooses.
	SamplePairs int
	// Records limits how many records are loaded; 0 means all.
	Records int
	// Seed makes the choices of a run: which records in which round, and at which hit of its point a process dies.
	Seed uint64
	// Lease is the worker's lease in whole seconds, and so how long a killed process's messages stay hidden. 0 means 1 s.
	Lease time.Duration
	// Patience is the maximum time from a restart to an empty queue; messages that are left after it count as stuck. 0
	// means 60 s.
	Patience time.Duration
	// Disturb, if set, kills nodes of the cluster that serves the account, while rounds run: from a round's begin until
	// ctx ends. It returns when all nodes are ready again. Requests of the run are sent again for longer then.
	Disturb func(ctx context.Context, say func(format string, args ...any)) (kills int, err error)
	// Keep leaves tables and queue in place at the end; Kept, if set, receives their names.
	Keep bool
	Kept func(names []string)
	// Step, if set, is called before each step of a run, with what comes next. An error ends the run.
	Step func(ctx context.Context, next string) error
	// Plain removes chance, for tests of workers with a fault that chance could hide: no message is put twice, and a
	// worker dies when it first reaches its point.
	Plain bool
	// Mistake, if set, is made by the workers: damage is counted, and is not an error.
	Mistake *Mistake
	// Story, if not 0, follows one item alone, counted from 1, and reports what happens to it. Points has one step at
	// most; nil chooses it.
	Story int
	// StuckAfter is the part of Patience that begins with the last restart. 0 means the same.
	StuckAfter time.Duration
	// Progress receives lines; nil discards them. Show, if set, shows a text in place of the one before, as a terminal
	// can; a line removes it.
	Progress io.Writer
	Show     func(text string)
}

// maxDequeueCount allows for a machine so busy that leases of one second expire: with the default of 5, messages
// without an error would move to the poison queue.
const maxDequeueCount = 100

// Frozen is the point of a round in which the worker is not killed but stopped (SIGSTOP) during its work, for longer
// than its leases, and continues after another worker has finished everything, with expired leases.
const Frozen = "frozen"

// ErrInvariant is wrapped by the error of a run that ended with lost, duplicated or wrong records.
var ErrInvariant = errors.New("an invariant does not hold")

// Naive reports whether the workers of the run make a mistake.
func (c *Config) Naive() bool { return c.Mistake != nil }
