package killrig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// Process is a started process. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	output Tail
	exited chan struct{} // closed when the process has exited; err is then final
	err    error
}

// Start starts cmd. The last bytes of its standard error, and of its standard output if stdout is nil, are kept for
// [Process.Output]. Standard error goes to cmd.Stderr too if that is set.
func Start(cmd *exec.Cmd, stdout io.Writer) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	if cmd.Stdout = stdout; cmd.Stderr == nil {
		cmd.Stderr = &p.output
	} else {
		cmd.Stderr = io.MultiWriter(&p.output, cmd.Stderr)
	}
	if stdout == nil {
		cmd.Stdout = &p.output
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns the error of [exec.Cmd.Wait]. It waits until the process has exited.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Killed waits until the process has exited, and returns an error, with its output, if it exited by anything else than
// SIGKILL.
func (p *Process) Killed() error {
	var exit *exec.ExitError
	if errors.As(p.Err(), &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the process exited without SIGKILL: %v\n%s", p.Err(), p.Output())
}

// Output returns the last 8 KiB of the process's output.
func (p *Process) Output() string { return p.output.String() }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process if it runs, and waits until it has exited.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Stop sends SIGTERM and waits until the process has exited. When ctx is done, it kills the process and returns an
// error that wraps the cause. Another error means that the process exited with a failure. Errors contain the process's
// output.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && p.Running() {
		p.Kill()
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("the process did not stop: %w\n%s", context.Cause(ctx), p.Output())
	}
	if p.err != nil {
		return fmt.Errorf("the process stopped with %w\n%s", p.err, p.Output())
	}
	return nil
}

// Tail is a writer that keeps the last 8 KiB. It is safe for concurrent use.
type Tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

const tailBytes = 8 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
