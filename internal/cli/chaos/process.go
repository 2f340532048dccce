package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	// startTimeout bounds a start, requestTimeout a request, stopTimeout an orderly end.
	startTimeout   = 2 * time.Minute
	requestTimeout = time.Minute
	stopTimeout    = time.Minute
)

// process is a server process.
type process struct {
	cmd        *exec.Cmd
	connection string // connection string of its account
	http       *http.Client
	output     *tail
	exited     chan struct{} // closed when the process is gone; err is then final
	err        error
}

var connectionLine = regexp.MustCompile(`^\s*(DefaultEndpointsProtocol=\S+)`)

// errNotReady is the error of a process that ended before it was ready.
var errNotReady = errors.New("the server ended before it was ready")

// launch starts a server on a folder without waiting for it. ready receives its connection string, or is closed if there will be none.
func (r *run) launch(folder string) (p *process, ready <-chan string, err error) {
	cmd := r.Command("serve", "--location", folder, "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0")
	p = &process{cmd: cmd, output: &tail{}, exited: make(chan struct{})}
	p.http = &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	in, out := io.Pipe()
	cmd.Stdout, cmd.Stderr = out, p.output
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
		out.Close()
	}()
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		var connection string
		for scanner.Scan() {
			if m := connectionLine.FindStringSubmatch(scanner.Text()); m != nil {
				connection = m[1]
			}
			if bytes.HasPrefix(scanner.Bytes(), []byte("Ready")) {
				lines <- connection
				break
			}
		}
		io.Copy(io.Discard, in)
	}()
	return p, lines, nil
}

// start starts a server and waits until it is ready.
func (r *run) start(ctx context.Context, folder string) (*process, error) {
	p, ready, err := r.launch(folder)
	if err != nil {
		return nil, err
	}
	select {
	case connection, ok := <-ready:
		if !ok {
			<-p.exited
			return p, fmt.Errorf("%w: %v\n%s", errNotReady, p.err, p.output)
		}
		p.connection = connection
		return p, nil
	case <-time.After(startTimeout):
		p.kill()
		return p, fmt.Errorf("the server was not ready after %v\n%s", startTimeout, p.output)
	case <-ctx.Done():
		p.kill()
		return p, context.Cause(ctx)
	}
}

// options make a client send each request once, so that what was acknowledged is known.
func (p *process) options() azcore.ClientOptions {
	return azcore.ClientOptions{Transport: p.http, Retry: policy.RetryOptions{MaxRetries: -1}}
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill ends the process if it still runs, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.http.CloseIdleConnections()
}

// terminate ends the process in order.
func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.kill()
		return err
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("the server did not stop within %v\n%s", stopTimeout, p.output)
	}
	p.http.CloseIdleConnections()
	if p.err != nil {
		return fmt.Errorf("the server stopped with %w\n%s", p.err, p.output)
	}
	return nil
}

// tail keeps the last bytes that a process writes.
type tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
