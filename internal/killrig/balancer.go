package killrig

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxTries is the number of nodes that a request is sent to before it is answered 502.
const maxTries = 3

// balancer is a load balancer in front of one service of all nodes: it sends each request to the next node whose last
// answer was not a failure. A request that did not reach a node is sent to another one; others are not repeated.
type balancer struct {
	listener net.Listener
	server   *http.Server
	targets  []*target
	next     atomic.Uint64
}

// target is a node behind a balancer.
type target struct {
	url  *url.URL
	down atomic.Int64 // unix nanoseconds until which the node gets no requests
}

// avoidFor is the time that a node gets no requests after it could not be reached, or answered 503.
const avoidFor = 500 * time.Millisecond

func newBalancer(nodes []*Node, address func(*Node) string) (*balancer, error) {
	b := &balancer{}
	for _, n := range nodes {
		b.targets = append(b.targets, &target{url: &url.URL{Scheme: "http", Host: address(n)}})
	}
	var err error
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: readyTimeout}).DialContext,
		DisableCompression: true}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the path and the Host header are signed
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) { return b.send(transport, r) }),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("x-ms-error-code", strings.ReplaceAll(err.Error(), "\n", " ")) // a test may print it
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	b.server = &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = b.server.Serve(b.listener) }()
	return b, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (b *balancer) address() string { return b.listener.Addr().String() }

func (b *balancer) send(transport http.RoundTripper, r *http.Request) (*http.Response, error) {
	err := errNoNode
	for range maxTries {
		t := b.pick()
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = t.url.Scheme, t.url.Host
		if r.Body != nil {
			// A node that cannot be reached has read nothing of the body, which the transport closes all the same.
			out.Body = io.NopCloser(r.Body)
		}
		var answer *http.Response
		if answer, err = transport.RoundTrip(out); err == nil {
			if answer.StatusCode == http.StatusServiceUnavailable {
				t.avoid()
			}
			return answer, nil
		}
		t.avoid()
		var failed *net.OpError
		if !errors.As(err, &failed) || failed.Op != "dial" || r.Context().Err() != nil {
			break
		}
	}
	return nil, err
}

func (t *target) avoid() { t.down.Store(time.Now().Add(avoidFor).UnixNano()) }

// pick returns the next node that is not avoided, or the next one if all are.
func (b *balancer) pick() *target {
	n := b.next.Add(1)
	for i := range b.targets {
		if t := b.targets[(int(n)+i)%len(b.targets)]; time.Now().UnixNano() >= t.down.Load() {
			return t
		}
	}
	return b.targets[int(n)%len(b.targets)]
}

func (b *balancer) close() {
	_ = b.server.Close()
}
