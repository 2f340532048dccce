package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/lazuli-storage/lazuli/workers"
)

// passOn passes a request on to the handler as it is, and the handler's answer back.
func (h *Host) passOn(w http.ResponseWriter, r *http.Request, f *function) {
	ctx, cancel := h.limit(r.Context())
	defer cancel()
	inv := h.newInvocation(ctx, f, "This function was called by an HTTP request.")
	inv.traceOf(r)
	_ = h.wrap(ctx, inv, func(ctx context.Context) error {
		err := h.proxy(ctx, w, r, inv)
		if err != nil {
			h.logExecuted(ctx, inv, err)
			w.WriteHeader(http.StatusInternalServerError) // Without a body, as the Functions host does.
		}
		return err
	})
}

// proxy forwards the request. It returns an error if there is no response to pass on.
func (h *Host) proxy(ctx context.Context, w http.ResponseWriter, r *http.Request, inv *invocation) (failed error) {
	h.logExecuting(ctx, inv)
	address, err := h.process.Await(ctx)
	if err != nil {
		return err
	}
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = target.Scheme, target.Host
			if h.project.host.forward == forwardToName {
				p.Out.URL.Path, p.Out.URL.RawPath = "/"+inv.function.name, ""
			}
			p.Out.URL.RawQuery = p.In.URL.RawQuery // As it came, also where it is not well formed.
			p.Out.Header.Del("Expect")             // The host's own server answers it.
			inv.mark(p.Out.Header)
		},
		Transport:     h.client.Transport,
		FlushInterval: -1, // Streams are to arrive as they are written.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			switch {
			case errors.Is(context.Cause(ctx), workers.ErrTimeout):
				h.process.Replace(address)
				err = errors.Join(workers.ErrTimeout, err)
			case ctx.Err() == nil:
				h.broken(address, err)
			}
			failed = fmt.Errorf("forward to the handler: %w", err)
		},
		ModifyResponse: func(got *http.Response) error {
			h.logExecuted(ctx, inv, nil, "status", got.StatusCode)
			return nil
		},
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return failed
}
