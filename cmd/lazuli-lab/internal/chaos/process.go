package chaos

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// requestTimeout bounds a request.
const requestTimeout = time.Minute

// process is a server process.
type process struct {
	*killrig.Server
	http   *http.Client
	writes writeCounter
}

// writeCounter counts the acknowledged requests that change data.
type writeCounter struct {
	next http.RoundTripper
	n    atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *writeCounter) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(q)
	if err == nil && q.Method != http.MethodGet && q.Method != http.MethodHead &&
		answer.StatusCode < http.StatusMultipleChoices {
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

// launch starts a server on a folder without waiting until it is ready.
func (r *run) launch(folder string) (*process, error) {
	server, err := killrig.Launch(r.Command, folder)
	if err != nil {
		return nil, err
	}
	p := &process{Server: server}
	p.writes.next = &http.Transport{MaxIdleConnsPerHost: 64}
	p.http = &http.Client{Timeout: requestTimeout, Transport: &p.writes}
	return p, nil
}

// start starts a server and waits until it is ready.
func (r *run) start(ctx context.Context, folder string) (*process, error) {
	p, err := r.launch(folder)
	if err != nil {
		return nil, err
	}
	return p, p.Await(ctx)
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
	defer p.http.CloseIdleConnections()
	return p.Terminate()
}
