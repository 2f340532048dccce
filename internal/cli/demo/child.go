package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// child is a worker process.
type child struct {
	cmd    *exec.Cmd
	output *tail
	exited chan struct{} // closed when the process is gone; err is then final
	err    error
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, output: &tail{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.output, c.output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// waitForKill waits until the process was killed by SIGKILL. Any other end is an error, with the last of the process's output.
func (c *child) waitForKill(ctx context.Context) error {
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("the worker was not killed at its fault point: %w\n%s", context.Cause(ctx), c.output)
	}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the worker exited without SIGKILL: %v\n%s", c.err, c.output)
}

// stop asks the process to end, and expects it to do so in good order.
func (c *child) stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !c.gone() {
		return fmt.Errorf("stop the worker: %w", err)
	}
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("the worker did not stop: %w\n%s", context.Cause(ctx), c.output)
	}
	if c.err != nil {
		return fmt.Errorf("the worker stopped in disorder: %w\n%s", c.err, c.output)
	}
	return nil
}

func (c *child) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// kill ends the process if it still runs, and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// tail keeps the last of what a process writes.
type tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if extra := len(t.b) - tailBytes; extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

// every calls done at intervals until it returns true or an error, or ctx is done.
func every(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
