// Package handlerproc keeps the process of a custom handler running, and knows where it can be asked: an Address,
// which is empty while no handler is ready. The caller that asks the handler tells the Address when a connection broke
// or the handler hangs. The package knows nothing of functions and of what is asked.
//
// Start with Process.Run and Address.Await.
package handlerproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/child"
)

const (
	// readyTimeout bounds how long a handler may take until it answers its first request.
	readyTimeout = time.Minute
	readyPoll    = 25 * time.Millisecond
	// slowAfter is the time after which something is said of that.
	slowAfter = 5 * time.Second
)

// Command describes how the handler is started.
type Command struct {
	Path      string // of the program
	Arguments []string
	Dir       string // in which it runs
	Port      int    // 0: a free one each time
}

// Process keeps a handler running: starts it, waits until it answers, starts it again when it ends.
type Process struct {
	*Address
	command        Command
	Environ        []string // of the handler; until Run
	log            *slog.Logger
	stdout, stderr io.Writer
	client         *http.Client
}

// New makes a process, which Run starts.
func New(c Command, environ []string, log *slog.Logger, stdout, stderr io.Writer) *Process {
	return &Process{
		Address: newAddress(), command: c, Environ: environ, log: log,
		stdout: &child.LineWriter{Out: stdout, Prefix: "handler | "},
		stderr: &child.LineWriter{Out: stderr, Prefix: "handler | "},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

var errStopped = errors.New("the handler was stopped")

// Run keeps the handler running until ctx is done. It returns an error if the handler cannot be started, or ends
// several times without ever having been ready.
func (p *Process) Run(ctx context.Context) error {
	err := child.Keep(ctx, p.log, "the handler", "the handler "+p.command.String(), p.once)
	if err == nil {
		p.Set("", errStopped)
	} else {
		p.Set("", err)
	}
	return err
}

// once runs the handler once, from its start to its end, and reports whether it was ready in between.
func (p *Process) once(ctx context.Context) (ready bool, err error) {
	select {
	case <-p.Hangs: // Of the one before, which ended by itself at the same time.
	default:
	}
	port := p.command.Port
	if port == 0 {
		if port, err = freePort(); err != nil {
			return false, &child.StartError{Err: err}
		}
	}
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	cmd := exec.Command(p.command.Path, p.command.Arguments...)
	cmd.Dir = p.command.Dir
	cmd.Env = append(p.Environ[:len(p.Environ):len(p.Environ)], handlerEnvironment(port)...)
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	running, err := child.Start(cmd)
	if err != nil {
		return false, &child.StartError{Err: notFound(p.command, err)}
	}
	p.log.Debug("the handler's process is started", "pid", running.Pid(), "port", port)

	life, cancel := context.WithCancel(ctx) // Done when the process is.
	defer cancel()
	go func() {
		select {
		case <-running.Exited():
			cancel()
		case <-life.Done():
		}
	}()
	slow := time.AfterFunc(slowAfter, func() {
		p.log.Warn(
			"the handler does not answer yet; it must listen on 127.0.0.1 at the port of $FUNCTIONS_CUSTOMHANDLER_PORT", "port",
			port)
	})
	defer slow.Stop()
	// The handler gets invocations while url is set. markSuspect and replace clear it: after the first, a handler that
	// still answers gets it back, since one broken connection does not show that the process has ended.
	for p.answers(life, url) {
		slow.Stop()
		if !ready {
			ready = true
			p.log.Info("the handler is ready", "pid", running.Pid(), "url", url)
		}
		p.Set(url, nil)
		select {
		case <-p.Suspect:
			continue
		case <-p.Hangs:
			running.End()
			return true, child.ErrReplaced
		case <-life.Done():
		}
		break
	}
	p.Set("", nil)
	select {
	case <-running.Exited():
		err := running.Err()
		if err == nil && !ready {
			err = fmt.Errorf("it ended before it answered at the port of $FUNCTIONS_CUSTOMHANDLER_PORT (%d)", port)
		}
		return ready, err
	default:
	}
	running.End()
	if ctx.Err() == nil {
		return ready, fmt.Errorf("it does not answer at the port of $FUNCTIONS_CUSTOMHANDLER_PORT (%d) within %v", port,
			readyTimeout)
	}
	return ready, nil
}

// answers waits, for readyTimeout, until the handler answers a GET of /. Any answer will do.
func (p *Process) answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/", nil)
		if err != nil {
			return false
		}
		response, err := p.client.Do(r)
		if err == nil {
			response.Body.Close()
			return true
		}
		// Only the errors of a port at which nothing listens, or of a listener that ends the connection, are waited out.
		var op *net.OpError
		if ctx.Err() == nil && !errors.As(err, &op) && !errors.Is(err, io.EOF) {
			return true // A slow response, or one that is not HTTP: a process is listening.
		}
		timer := time.NewTimer(readyPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return false
}

// handlerEnvironment returns the environment variables that the host sets for a handler in addition to the settings.
func handlerEnvironment(port int) []string {
	id, n := uuid.NewString(), strconv.Itoa(port)
	return []string{
		"FUNCTIONS_CUSTOMHANDLER_PORT=" + n, "FUNCTIONS_CUSTOMHANDLER_WORKER_ID=" + id,
		"FUNCTIONS_HTTPWORKER_PORT=" + n, "FUNCTIONS_HTTPWORKER_ID=" + id, // Their names until 2020.
	}
}

// freePort finds a free port. If another process takes it before the handler listens, the handler fails, and the next
// attempt uses another port.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// notFound says where a command was looked for.
func notFound(c Command, err error) error {
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	hint := ""
	if strings.HasSuffix(strings.ToLower(c.Path), ".exe") && runtime.GOOS != "windows" {
		hint = "; on this system programs have no .exe"
	}
	return fmt.Errorf("host.json: customHandler.description.defaultExecutablePath: %q is neither a file in the project "+
		"nor a command on the path%s: %w", c.Path, hint, err)
}

func (c Command) String() string {
	return strings.Join(append([]string{c.Path}, c.Arguments...), " ")
}
