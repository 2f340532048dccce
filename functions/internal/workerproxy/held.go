package workerproxy

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// heldResponse holds the head of a response back until the first byte of its body, or until commit: the response of a
// language worker may still turn out to be that of a function that has failed. .NET's worker ends such a one regularly,
// with 200 and no body.
type heldResponse struct {
	out    http.ResponseWriter
	header http.Header

	mu     sync.Mutex // guards the rest: a copy of the body flushes in a goroutine of its own
	status int        // 0: there is no head yet
	sent   bool
	// hijacked: the response is another protocol.
	hijacked bool
}

func newHeldResponse(out http.ResponseWriter) *heldResponse {
	return &heldResponse{out: out, header: out.Header().Clone()}
}

// Header implements http.ResponseWriter.
func (h *heldResponse) Header() http.Header { return h.header }

// Unwrap gives http.ResponseController the connection, for a response that changes its protocol.
func (h *heldResponse) Unwrap() http.ResponseWriter { return h.out }

// WriteHeader implements http.ResponseWriter. Responses of information are sent at once.
func (h *heldResponse) WriteHeader(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		// net/http sends the headers of the final response with one of information. They are taken back after it, since the
		// response may still become the host's own.
		own := h.out.Header().Clone()
		maps.Copy(h.out.Header(), h.header)
		h.out.WriteHeader(status)
		clear(h.out.Header())
		maps.Copy(h.out.Header(), own)
		return
	}
	if h.status == 0 {
		h.status = status
	}
}

// Write implements http.ResponseWriter.
func (h *heldResponse) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	// The first byte of a body decides: from here on the response is that of the worker, whatever its function returns.
	h.commit()
	return h.out.Write(b)
}

// FlushError sends what was written. It does nothing while the head is held back.
func (h *heldResponse) FlushError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sent {
		return nil
	}
	return http.NewResponseController(h.out).Flush()
}

// commit sends the head, once. The caller holds mu.
func (h *heldResponse) commit() {
	if h.sent {
		return
	}
	h.sent = true
	clear(h.out.Header())
	maps.Copy(h.out.Header(), h.header)
	if h.status == 0 {
		h.status = http.StatusOK
	}
	h.out.WriteHeader(h.status)
}

// release sends the head if it is held back still, and the trailers that the header has by now.
func (h *heldResponse) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hijacked {
		return
	}
	h.commit()
	// Trailers are set after the body; net/http sends those that the head has announced.
	maps.Copy(h.out.Header(), h.header)
}

// Hijack implements http.Hijacker: the response is another protocol.
func (h *heldResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hijacked = true
	h.sent = true
	return http.NewResponseController(h.out).Hijack()
}

// begun reports whether a part of the response was sent.
func (h *heldResponse) begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// returnedFunction is the end of a function whose HTTP request was passed on to its worker.
type returnedFunction struct {
	done chan struct{} // closed when the function has returned
	err  error         // of the function, once done is closed
}

// watch waits for the function's end, and then for a while for its response. It reports whether there was none, for
// which it calls cancel, as it does for the response of a function that has failed and does not end. begun is closed
// when the head of the response comes, and ended when all of it has.
func (r *returnedFunction) watch(ctx context.Context, returned <-chan error, begun, ended <-chan struct{},
	cancel context.CancelCauseFunc) (silent bool) {
	select {
	case r.err = <-returned:
		close(r.done)
	case <-ctx.Done():
		return false
	}
	wait := answerGrace
	if r.err != nil {
		begun, wait = nil, failureGrace // The response is to end: Node.js leaves one open whose stream has failed.
	}
	grace := time.NewTimer(wait)
	defer grace.Stop()
	select {
	case <-begun:
	case <-ended:
	case <-ctx.Done():
	case <-grace.C:
		cancel(errors.New("the worker sends no response"))
		return true
	}
	return false
}

// await waits for the function's end.
func (r *returnedFunction) await(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errBroken = errors.New("the response of the worker was interrupted, or its client disconnected")

// The attempts to connect to the HTTP server of a language worker, which may begin to listen a little later than the
// worker says. https://github.com/Azure/azure-functions-host (RetryProxyHandler)
const (
	dialAttempts = 10
	dialFirst    = 50 * time.Millisecond
	dialMost     = 250 * time.Millisecond
)

// dialWorker connects to the HTTP server of a language worker.
func dialWorker(ctx context.Context, network, address string) (net.Conn, error) {
	delay := dialFirst
	for attempt := 1; ; attempt++ {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		// Refused alone is retried: the worker has not begun to listen. Any other error would come again.
		if err == nil || attempt == dialAttempts || !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		delay = min(2*delay, dialMost)
	}
}
