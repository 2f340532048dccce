// Package workerproxy passes the request of an HTTP trigger on to the HTTP server of a language worker, and the
// response back. The function's end comes by another way, and can be an error: so the head of a response is held back
// for as long as nothing of its body has come. A request that is idle ends.
//
// Start with Proxy.Pass; held.go is the response, idle.go the time without activity.
package workerproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Proxy passes requests on to the HTTP servers of language workers.
type Proxy struct {
	transport *http.Transport
	idle      time.Duration // forwardIdle
	log       *slog.Logger
}

// New makes a proxy whose connections to workers stay open for a time without a request.
func New(keep time.Duration, log *slog.Logger) *Proxy {
	return &Proxy{idle: forwardIdle, log: log, transport: &http.Transport{MaxIdleConnsPerHost: 256,
		IdleConnTimeout: keep, DisableCompression: true, DialContext: dialWorker}}
}

// Close ends the connections that no request uses.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// Pass passes the request of an invocation on to the HTTP server of a worker, and the response back. returned receives
// the end of the function. begun: a part of the response was sent. pass returns an error if the request or the response
// was interrupted or idle for too long, or if the function fails: then nothing of the response was sent, or it was
// interrupted.
// https://github.com/Azure/azure-functions-host (DefaultHttpProxyService, ExceptionMiddleware)
func (p *Proxy) Pass(ctx context.Context, w http.ResponseWriter, r *http.Request, invocation, address string,
	returned <-chan error) (begun bool, failed error) {
	target, err := url.Parse(address)
	if err != nil {
		return false, err
	}
	// With the server in the context, the proxy panics when it cannot copy the response to its end.
	ctx = context.WithValue(ctx, http.ServerContextKey, r.Context().Value(http.ServerContextKey))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(errClientGone) })()
	idle := limitIdle(p.idle, cancel)
	defer idle.stop()
	held, head, ended := newHeldResponse(w), make(chan struct{}), make(chan struct{})
	function, silent := &returnedFunction{done: make(chan struct{})}, false
	var waiting sync.WaitGroup
	waiting.Go(func() { silent = function.watch(ctx, returned, head, ended, cancel) })
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // As it came, also where it is not well formed.
			r.Out.Header.Del("Expect")             // The host's own server answers it.
			r.Out.Host = r.In.Host
			r.SetXForwarded() // Of these the worker makes the URL that the function sees.
			r.Out.Header.Set("X-Ms-Invocation-Id", invocation)
		},
		Transport:     p.transport,
		FlushInterval: -1, // Streams are to arrive as they are written.
		ModifyResponse: func(got *http.Response) error {
			got.Header.Del("X-Ms-Invocation-Id")
			idle.response(got)
			close(head)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			failed = fmt.Errorf("forward to the worker: %w", err)
		},
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	defer func() {
		if broken := recover(); broken == http.ErrAbortHandler {
			failed = errBroken
		} else if broken != nil {
			panic(broken)
		}
		if failed == nil {
			// The worker of .NET ends the response of a function that throws as if nothing had happened.
			failed = function.await(ctx)
		}
		close(ended)
		cancel(nil)
		waiting.Wait()
		// The watcher has ended: silent and the function's error are final.
		switch {
		case silent && function.err == nil:
			failed = nil
		case failed == nil:
			held.release()
		}
		begun = held.begun()
	}()
	forwarded := r.WithContext(ctx)
	forwarded.Body = idle.request(r.Body)
	proxy.ServeHTTP(held, forwarded)
	return begun, failed
}

// answerGrace is the time that the response of a language worker may take to begin after its function has returned: one
// that returns nothing sends none. failureGrace is that after a function has failed, for what it had written before.
const (
	answerGrace  = 2 * time.Second
	failureGrace = 500 * time.Millisecond
)

// errClientGone means that the client of an HTTP request has disconnected before the response.
var errClientGone = errors.New("the client has disconnected")
