package functions

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
	"sync"
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

// process keeps a handler running: starts it, waits until it answers, starts it again when it ends.
type process struct {
	command        command
	environ        []string
	log            *slog.Logger
	stdout, stderr io.Writer
	client         *http.Client

	suspect chan struct{} // has a token when markSuspect was called
	hangs   chan struct{} // has a token when replace was called

	mu      sync.Mutex // guards the rest
	url     string     // of the handler, while it is ready; "http://127.0.0.1:port"
	changed chan struct{}
	fatal   error // no handler will ever be ready again
}

func newProcess(c command, environ []string, log *slog.Logger, stdout, stderr io.Writer) *process {
	return &process{
		command: c, environ: environ, log: log, suspect: make(chan struct{}, 1), hangs: make(chan struct{}, 1),
		changed: make(chan struct{}),
		stdout:  &child.LineWriter{Out: stdout, Prefix: "handler | "},
		stderr:  &child.LineWriter{Out: stderr, Prefix: "handler | "},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

func (p *process) set(url string, fatal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url, p.fatal = url, fatal
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns the handler's address as soon as it is ready.
func (p *process) await(ctx context.Context) (string, error) {
	for {
		p.mu.Lock()
		url, fatal, changed := p.url, p.fatal, p.changed
		p.mu.Unlock()
		switch {
		case fatal != nil:
			return "", fatal
		case url != "":
			return url, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("the handler is not ready: %w", context.Cause(ctx))
		}
	}
}

// markSuspect records that a connection to the handler broke. It is not known for a moment whether the handler is
// alive; until then no more invocations are sent to it.
func (p *process) markSuspect(url string) { p.leave(url, p.suspect) }

// replace ends the handler and starts another one. The handler's other invocations fail.
func (p *process) replace(url string) { p.leave(url, p.hangs) }

// leave stops sending invocations to a handler, if it is still the current one. why receives a token.
func (p *process) leave(url string, why chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.url != url {
		return
	}
	p.url = ""
	select {
	case why <- struct{}{}:
	default:
	}
}

var errStopped = errors.New("the handler was stopped")

// run keeps the handler running until ctx is done. It returns an error if the handler cannot be started, or ends
// several times without ever having been ready.
func (p *process) run(ctx context.Context) error {
	err := child.Keep(ctx, p.log, "the handler", "the handler "+p.command.String(), p.once)
	if err == nil {
		p.set("", errStopped)
	} else {
		p.set("", err)
	}
	return err
}

// once runs the handler once, from its start to its end, and reports whether it was ready in between.
func (p *process) once(ctx context.Context) (ready bool, err error) {
	select {
	case <-p.hangs: // Of the one before, which ended by itself at the same time.
	default:
	}
	port := p.command.port
	if port == 0 {
		if port, err = freePort(); err != nil {
			return false, &child.StartError{Err: err}
		}
	}
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	cmd := exec.Command(p.command.path, p.command.arguments...)
	cmd.Dir = p.command.dir
	cmd.Env = append(p.environ[:len(p.environ):len(p.environ)], handlerEnvironment(port)...)
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
		p.set(url, nil)
		select {
		case <-p.suspect:
			continue
		case <-p.hangs:
			running.End()
			return true, child.ErrReplaced
		case <-life.Done():
		}
		break
	}
	p.set("", nil)
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
func (p *process) answers(ctx context.Context, url string) bool {
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
func notFound(c command, err error) error {
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	hint := ""
	if strings.HasSuffix(strings.ToLower(c.path), ".exe") && runtime.GOOS != "windows" {
		hint = "; on this system programs have no .exe"
	}
	return fmt.Errorf("host.json: customHandler.description.defaultExecutablePath: %q is neither a file in the project "+
		"nor a command on the path%s: %w", c.path, hint, err)
}

func (c command) String() string {
	return strings.Join(append([]string{c.path}, c.arguments...), " ")
}
