// Package child starts programs that end with this one, and keeps one running.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

const (
	// StopGrace is the time that a process may take to end after SIGTERM.
	StopGrace = 5 * time.Second
	// startAttempts bounds the failures in a row of a program that has never been ready.
	startAttempts = 3
	// restartFirst and restartMost bound the back-off between restarts; a process that was up for steadyAfter starts at
	// the first again.
	restartFirst = 500 * time.Millisecond
	restartMost  = 30 * time.Second
	restartReady = time.Second // restartMost for a process that was ready: what ended it may be one request
	steadyAfter  = time.Minute
	// ExitRestart is the exit code with which a process asks to be started again at once.
	ExitRestart = 200
)

// Process is a process in a group of its own, with all processes that it starts.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait
}

// Start starts a command. On Linux the kernel kills the process when this one dies.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.WaitDelay = StopGrace // A grandchild may hold on to the pipes.
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.exited)
		// The kernel sends the signal of the parent's death when the thread ends that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		newProcessGroup(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid returns the process's ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns the error of exec.Cmd.Wait, once Exited is closed.
func (p *Process) Err() error { return p.err }

// End asks the process and all processes of its group to end, and kills them after StopGrace. It does nothing if the
// process has ended by itself: its ID may be another's.
func (p *Process) End() {
	select {
	case <-p.exited:
		return
	default:
	}
	terminateGroup(p.cmd)
	grace := time.NewTimer(StopGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
	case <-grace.C:
	}
	p.Kill()
}

// Kill kills the process and those that it started, and waits for its end.
func (p *Process) Kill() {
	killGroup(p.cmd)
	<-p.exited
}

// StartError means that a process could not be started; trying again is useless.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// ErrReplaced means that a process was ended because it did not answer.
var ErrReplaced = errors.New("it did not answer within the functionTimeout")

// Keep runs a program again and again until ctx is done. once runs it to its end, and reports whether it was ready in
// between. Keep returns an error if the program cannot be started, or fails three times without having been ready. what
// names the program in the log and name in the error.
func Keep(ctx context.Context, log *slog.Logger, what, name string,
	once func(ctx context.Context) (ready bool, err error)) error {
	everReady, failures, delay := false, 0, restartFirst
	for {
		began := time.Now()
		ready, err := once(ctx)
		// A program that was ready once worked with this configuration: from then on it is always started again. One that
		// never was has a mistake that a restart does not cure.
		everReady = everReady || ready
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return nil
		case ready && errors.As(err, &exit) && exit.ExitCode() == ExitRestart:
			// On request, so without delay, and not counted as a failure.
			log.Info(what + " asks for a restart")
			continue
		case errors.Is(err, ErrReplaced):
			log.Warn(what + " did not answer within the functionTimeout; starting another one")
			continue
		case err == nil:
			// Ending is a failure even with code 0: it was to run.
			err = errors.New("it exited with code 0")
		}
		failures++
		if !everReady {
			var start *StartError
			if failures == startAttempts || errors.As(err, &start) {
				return fmt.Errorf("%s does not come up: %w", name, err)
			}
		}
		// After a time without failures the next one is the first again.
		if time.Since(began) > steadyAfter {
			delay = restartFirst
		}
		log.Error(what+" ended; starting it again", "err", err, "after", delay)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		delay = min(2*delay, restartMost)
		// One that was ready has clients that wait for it.
		if ready {
			delay = min(delay, restartReady)
		}
	}
}

// LineWriter puts a prefix before every line.
type LineWriter struct {
	Out    io.Writer
	Prefix string
	// Take, if set, is called with each line; one for which it returns true is not written to Out.
	Take func(line string) bool

	mu   sync.Mutex
	line []byte // begun, without an end
}

// maxLine is the position at which a line is broken that does not end.
const maxLine = 64 << 10

func (w *LineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range b {
		if c != '\n' {
			w.line = append(w.line, c)
		}
		if c == '\n' || len(w.line) >= maxLine {
			if w.Take != nil && w.Take(string(w.line)) {
				w.line = w.line[:0]
				continue
			}
			if _, err := fmt.Fprintf(w.Out, "%s%s\n", w.Prefix, w.line); err != nil {
				return 0, err
			}
			w.line = w.line[:0]
		}
	}
	return len(b), nil
}
