package workerproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// forwardIdle is the time without activity after which a request ends that is passed on to a language worker.
// https://github.com/Azure/azure-functions-host (DefaultHttpProxyService, ActivityTimeout)
const forwardIdle = 240 * time.Second

// errIdle means that neither a byte of the request nor one of the response has passed for forwardIdle.
var errIdle = errors.New("neither the request nor the response had activity for 4 minutes")

// idleLimit cancels a context when nothing happens for a time. Bytes in either direction count, and the head of the
// response.
type idleLimit struct {
	after time.Duration
	timer *time.Timer
}

// limitIdle begins to watch. stop ends it.
func limitIdle(after time.Duration, cancel context.CancelCauseFunc) *idleLimit {
	return &idleLimit{after, time.AfterFunc(after, func() { cancel(errIdle) })}
}

// touch notes that something has happened. Once the time was over it changes nothing: the context stays cancelled.
func (l *idleLimit) touch() { l.timer.Reset(l.after) }

func (l *idleLimit) stop() { l.timer.Stop() }

// request returns a body whose reads count.
func (l *idleLimit) request(body io.ReadCloser) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body // The proxy recognizes a request without a body by it.
	}
	return &activeBody{body, l}
}

// response makes what comes of a response count. The body of one that changes the protocol is written to as well.
func (l *idleLimit) response(r *http.Response) {
	l.touch()
	if both, ok := r.Body.(io.ReadWriteCloser); ok && r.StatusCode == http.StatusSwitchingProtocols {
		r.Body = &activeConn{both, l}
		return
	}
	r.Body = &activeBody{r.Body, l}
}

// activeBody is a body whose reads count as activity.
type activeBody struct {
	io.ReadCloser
	limit *idleLimit
}

func (b *activeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.limit.touch()
	}
	return n, err
}

// activeConn is a connection on which both directions count as activity.
type activeConn struct {
	io.ReadWriteCloser
	limit *idleLimit
}

func (c *activeConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if n > 0 {
		c.limit.touch()
	}
	return n, err
}

func (c *activeConn) Write(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Write(p)
	if n > 0 {
		c.limit.touch()
	}
	return n, err
}
