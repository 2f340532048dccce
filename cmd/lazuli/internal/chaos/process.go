package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/childproc"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

const (
	// startTimeout bounds a start, requestTimeout a request, stopTimeout an orderly end.
	startTimeout   = 2 * time.Minute
	requestTimeout = time.Minute
	stopTimeout    = time.Minute
)

// process is a server process.
type process struct {
	*childproc.Process
	connection string // connection string of its account
	http       *http.Client
	writes     writeCounter
}

// writeCounter counts the acknowledged requests that change data.
type writeCounter struct {
	next http.RoundTripper
	n    atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *writeCounter) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(q)
	if err == nil && q.Method != http.MethodGet && q.Method != http.MethodHead && answer.StatusCode < http.StatusMultipleChoices {
		c.n.Add(1)
	}
	return answer, err
}

// CloseIdleConnections is called by the method of http.Client of that name.
func (c *writeCounter) CloseIdleConnections() {
	if t, ok := c.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

var connectionLine = lazyregexp.New(`^\s*(DefaultEndpointsProtocol=\S+)`)

// errNotReady is the error of a process that ended before it was ready.
var errNotReady = errors.New("the server ended before it was ready")

// launch starts a server on a folder without waiting for it. ready receives its connection string, or is closed if there will be none.
func (r *run) launch(folder string) (p *process, ready <-chan string, err error) {
	cmd := r.Command("serve", "--location", folder, "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0")
	in, out := io.Pipe()
	c, err := childproc.Start(cmd, out)
	if err != nil {
		return nil, nil, fmt.Errorf("start the server: %w", err)
	}
	p = &process{Process: c}
	p.writes.next = &http.Transport{MaxIdleConnsPerHost: 64}
	p.http = &http.Client{Timeout: requestTimeout, Transport: &p.writes}
	go func() {
		<-c.Exited()
		out.Close()
	}()
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		var connection string
		for scanner.Scan() {
			if m := connectionLine().FindStringSubmatch(scanner.Text()); m != nil {
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
			return p, fmt.Errorf("%w: %v\n%s", errNotReady, p.Err(), p.Output())
		}
		p.connection = connection
		return p, nil
	case <-time.After(startTimeout):
		p.kill()
		return p, fmt.Errorf("the server was not ready after %v\n%s", startTimeout, p.Output())
	case <-ctx.Done():
		p.kill()
		return p, context.Cause(ctx)
	}
}

// options make a client send each request once, so that what was acknowledged is known.
func (p *process) options() azcore.ClientOptions {
	return azcore.ClientOptions{Transport: p.http, Retry: policy.RetryOptions{MaxRetries: -1}}
}

// kill kills the process if it runs, and waits until it has exited.
func (p *process) kill() {
	p.Kill()
	p.http.CloseIdleConnections()
}

// terminate stops the process, which must exit without an error.
func (p *process) terminate() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	defer p.http.CloseIdleConnections()
	return p.Stop(ctx)
}
