package rig

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// Child is a worker process.
type Child struct{ *killrig.Process }

// StartChild starts the process of a worker.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	p, err := killrig.Start(cmd, nil)
	if err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	return &Child{p}, nil
}

// WaitForKill waits until the process was killed by SIGKILL. Any other end is an error, with the last of the process's
// output.
func (c *Child) WaitForKill(ctx context.Context) error {
	select {
	case <-c.Exited():
	case <-ctx.Done():
		c.Kill()
		return fmt.Errorf("the worker was not killed at its fault point: %w\n%s", context.Cause(ctx), c.Output())
	}
	return c.Killed()
}

// Stop stops the worker, which must exit without an error. A process that has just been started would die of the
// signal: it is stopped after its first line of output.
func (c *Child) Stop(ctx context.Context) error {
	_ = Every(ctx, 10*time.Millisecond, func() (bool, error) { return c.Output() != "" || !c.Running(), nil })
	if err := c.Process.Stop(ctx); err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	return nil
}

// Every calls done until it returns true or an error, or ctx is done. Between two calls it waits for the interval, or
// for nine times as long as the call took: checks that read much leave the processors to the work that they wait for.
func Every(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		began := time.Now()
		if ok, err := done(); ok || err != nil {
			return err
		}
		timer.Reset(max(interval, 9*time.Since(began)))
	}
}
