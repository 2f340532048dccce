package inproc

import (
	"context"
	"net/http"
	"sync"
)

// served are the handlers of this process by the hosts of their addresses, such as "127.0.0.1:10000".
var served sync.Map // of http.Handler

// Serve lets [Here] reach handlers, by the hosts of their addresses, until stop is called. stop waits for the requests
// under way, until ctx is done.
func Serve(handlers map[string]http.Handler) (stop func(ctx context.Context)) {
	var (
		mu      sync.Mutex // guards stopped, and that calls grows
		stopped bool
		calls   sync.WaitGroup
	)
	begin := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			calls.Add(1)
		}
		return !stopped
	}
	own := map[string]*http.HandlerFunc{}
	for host, h := range handlers {
		f := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !begin() {
				panic(http.ErrAbortHandler)
			}
			defer calls.Done()
			h.ServeHTTP(w, r)
		})
		own[host] = &f
		served.Store(host, &f)
	}
	return func(ctx context.Context) {
		for host, f := range own {
			served.CompareAndDelete(host, f) // not one that has the address by now
		}
		mu.Lock()
		stopped = true
		mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			calls.Wait()
		}()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// Here carries requests by http to the handlers of [Serve], and others over Next, by https too, which then examines the
// certificate.
type Here struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t Here) RoundTrip(r *http.Request) (*http.Response, error) {
	h, ok := served.Load(r.URL.Host)
	if !ok || r.URL.Scheme != "http" {
		return t.Next.RoundTrip(r)
	}
	return (&Transport{Handlers: map[string]http.Handler{r.URL.Host: h.(*http.HandlerFunc)}}).RoundTrip(r)
}
