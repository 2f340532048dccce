package functions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/originguard"
	"github.com/lazuli-storage/lazuli/workers"
)

// handler serves HTTP triggers and the host's own paths.
func (h *Host) handler() http.Handler {
	web := &web{host: h, own: h.ownPaths()}
	for _, f := range h.project.functions {
		if f.trigger.kind == kindHTTPTrigger {
			web.functions = append(web.functions, f)
		}
	}
	slices.SortStableFunc(web.functions, func(a, b *function) int { return compareRoutes(a.route, b.route) })
	if n := h.project.host.http.maxConcurrent; n > 0 {
		web.running = make(chan struct{}, n)
	}
	if n := h.project.host.http.maxOutstanding; n > 0 {
		web.outstanding = make(chan struct{}, n)
	}
	return web
}

// web is the host's HTTP server.
type web struct {
	host      *Host
	own       http.Handler
	functions []*function // in the order in which their routes are tried
	// running and outstanding hold a token for each request; nil if there is no limit.
	running, outstanding chan struct{}
}

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range s.host.project.host.http.headers {
		w.Header().Set(name, value)
	}
	allowed, answered := s.cors(w, r)
	if answered {
		return
	}
	// Without keys only this machine reaches the host, and so does any page in a browser on it whose server makes the
	// page's name resolve to 127.0.0.1 (DNS rebinding). Such a page is of the origin that it asks, so CORS does not stop
	// it; but the browser sends its name as the host.
	if s.host.keys == nil && !originguard.Trusted(r.Host, s.host.config.AllowHosts) {
		http.Error(w, "host name not allowed: use an IP address or localhost, lazuli func start --allow-host NAME, or keys",
			http.StatusForbidden)
		return
	}
	if why := originguard.ForeignPage(r, nil); why != "" && !allowed && !safe(r.Method) {
		http.Error(w, why+": local.settings.json, Host.CORS", http.StatusForbidden)
		return
	}
	f, params := s.find(r)
	if f == nil {
		if strings.Contains(r.URL.Path, "//") {
			http.NotFound(w, r) // Go's own multiplexer would redirect to the path with one slash.
			return
		}
		s.own.ServeHTTP(w, r)
		return
	}
	if !s.host.keys.admitTo(w, r, f) {
		return
	}
	// Outstanding requests include those that wait to run. So this limit comes first and refuses, and the next one
	// waits.
	if s.outstanding != nil {
		select {
		case s.outstanding <- struct{}{}:
			defer func() { <-s.outstanding }()
		default:
			http.Error(w, "too many requests: host.json, extensions.http.maxOutstandingRequests", http.StatusTooManyRequests)
			return
		}
	}
	if s.running != nil {
		select {
		case s.running <- struct{}{}:
			defer func() { <-s.running }()
		case <-r.Context().Done():
			return
		}
	}
	if f.forwarded {
		s.host.forward(w, r, f)
		return
	}
	s.host.serve(w, r, f, params)
}

// find returns the function whose route and methods a request matches, and the route's values.
func (s *web) find(r *http.Request) (*function, map[string]any) {
	var path []string
	whole := strings.TrimSuffix(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for p := range strings.SplitSeq(whole, "/") {
		if whole == "" {
			break
		}
		// An empty segment, of two slashes, is one that no text and no parameter of a route matches.
		text, err := url.PathUnescape(p)
		if err != nil {
			return nil, nil
		}
		path = append(path, text)
	}
	if prefix := s.host.project.host.http.prefix; prefix != "" {
		for p := range strings.SplitSeq(prefix, "/") {
			if len(path) == 0 || !strings.EqualFold(path[0], p) {
				return nil, nil
			}
			path = path[1:]
		}
	} else if len(path) > 0 && (path[0] == "admin" || path[0] == "runtime") {
		return nil, nil
	}
	for _, f := range s.functions {
		if len(f.methods) > 0 && !slices.Contains(f.methods, r.Method) {
			continue
		}
		if values, ok := f.route.find(path); ok {
			return f, values
		}
	}
	return nil, nil
}

// safe reports whether a request of a method changes nothing, by the rules of HTTP.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// cors adds the headers for web pages of other origins, if local.settings.json allows them, and answers a preflight.
func (s *web) cors(w http.ResponseWriter, r *http.Request) (allowed, answered bool) {
	local := s.host.project.local
	origin := r.Header.Get("Origin")
	switch {
	case origin == "" || len(local.cors) == 0:
		return false, false
	case slices.Contains(local.cors, "*"):
		w.Header().Set("Access-Control-Allow-Origin", "*")
	case slices.ContainsFunc(local.cors, func(o string) bool { return strings.EqualFold(o, origin) }):
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Add("Vary", "Origin")
	default:
		return false, false
	}
	if local.corsCredentials {
		w.Header().Set("Access-Control-Allow-Credentials", "true")
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || method == "" {
		return true, false
	}
	w.Header().Set("Access-Control-Allow-Methods", method)
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		w.Header().Set("Access-Control-Allow-Headers", headers)
	}
	w.WriteHeader(http.StatusNoContent)
	return true, true
}

// forward passes a request on to the handler as it is, and the handler's answer back.
func (h *Host) forward(w http.ResponseWriter, r *http.Request, f *function) {
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
	address, err := h.process.await(ctx)
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
				h.process.replace(address)
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

// answerGrace is the time that the response of a language worker may take to begin after its function has returned: one
// that returns nothing sends none. failureGrace is that after a function has failed, for what it had written before.
const (
	answerGrace  = 2 * time.Second
	failureGrace = 500 * time.Millisecond
)

// errClientGone means that the client of an HTTP request has disconnected before the response.
var errClientGone = errors.New("the client has disconnected")

// forwardTo passes a request on to the HTTP server of a language worker, and the response back. It returns an error if
// the request or the response was interrupted or idle for too long, or if the function fails: then the client gets 500
// if nothing of the response was sent, and otherwise an interrupted one.
// https://github.com/Azure/azure-functions-host (DefaultHttpProxyService, ExceptionMiddleware)
func (h *Host) forwardTo(ctx context.Context, w http.ResponseWriter, r *http.Request, inv *invocation, address string,
	returned <-chan error) (failed error) {
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	// With the server in the context, the proxy panics when it cannot copy the response to its end.
	ctx = context.WithValue(ctx, http.ServerContextKey, r.Context().Value(http.ServerContextKey))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(errClientGone) })()
	idle := limitIdle(h.forwardIdle, cancel)
	defer idle.stop()
	held, begun, ended := newHeldResponse(w), make(chan struct{}), make(chan struct{})
	function, silent := &returnedFunction{done: make(chan struct{})}, false
	var waiting sync.WaitGroup
	waiting.Go(func() { silent = function.watch(ctx, returned, begun, ended, cancel) })
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = target.Scheme, target.Host
			p.Out.URL.RawQuery = p.In.URL.RawQuery // As it came, also where it is not well formed.
			p.Out.Header.Del("Expect")             // The host's own server answers it.
			p.Out.Host = p.In.Host
			p.SetXForwarded() // Of these the worker makes the URL that the function sees.
			p.Out.Header.Set("X-Ms-Invocation-Id", inv.id)
		},
		Transport:     h.worker.Transport,
		FlushInterval: -1, // Streams are to arrive as they are written.
		ModifyResponse: func(got *http.Response) error {
			got.Header.Del("X-Ms-Invocation-Id")
			idle.response(got)
			close(begun)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			failed = fmt.Errorf("forward to the worker: %w", err)
		},
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			failed = errBroken
		} else if p != nil {
			panic(p)
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
		inv.forwarded = held.begun()
		inv.broken = inv.forwarded && failed != nil
	}()
	forwarded := r.WithContext(ctx)
	forwarded.Body = idle.request(r.Body)
	proxy.ServeHTTP(held, forwarded)
	return failed
}

// limit gives a context the app's functionTimeout.
func (h *Host) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.project.host.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, h.project.host.timeout, workers.ErrTimeout)
}

// serve calls a function for a request, and answers with its http output. If the client disconnects, a language worker
// that cancels invocations is asked to; the call continues otherwise, and in any case until the function has returned:
// its effects must not depend on that. https://github.com/Azure/azure-functions-host (FunctionInvocationMiddleware)
func (h *Host) serve(w http.ResponseWriter, r *http.Request, f *function, params map[string]any) {
	h.calls.Add(1)
	defer h.calls.Done()
	ctx := h.hard
	inv := h.newInvocation(ctx, f, "This function was called by an HTTP request.")
	inv.gone = r.Context().Done()
	var body []byte
	var err error
	if h.project.worker != nil && h.project.worker.TakesRequests() {
		inv.forward = func(ctx context.Context, address string, returned <-chan error) error {
			return h.forwardTo(ctx, w, r, inv, address, returned)
		}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	if err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	inv.traceOf(r)
	inv.fromHTTP(r, params, body)
	var result *httpResult
	err = h.wrap(ctx, inv, func(ctx context.Context) error {
		result, err = h.call(ctx, inv)
		return err
	})
	switch {
	case inv.broken:
		panic(http.ErrAbortHandler) // The client is to see that the response is not complete.
	case inv.forwarded:
		return
	}
	if err != nil || result == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	result.send(w)
}

// fromHTTP takes what an HTTP trigger offers.
func (inv *invocation) fromHTTP(r *http.Request, params map[string]any, body []byte) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address := scheme + "://" + r.Host + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	query, headers := map[string]string{}, map[string]string{"Host": r.Host}
	for name, values := range r.URL.Query() {
		query[name] = strings.Join(values, ",")
	}
	all := map[string][]string{"Host": {r.Host}}
	for name, values := range r.Header {
		all[name], headers[name] = values, strings.Join(values, ",")
	}
	if len(body) > 0 && r.ContentLength >= 0 {
		all["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	text := map[string]string{}
	for name, value := range params {
		if value != nil {
			text[name] = fmt.Sprint(value)
		}
	}
	v := httpData{URL: address, Method: r.Method, Query: query, Headers: all, Params: params, Identities: []any{anonymous},
		request: &HTTPRequest{
			Method: r.Method, URL: address, Header: all, Query: query, Params: text, Body: body}}
	if len(body) > 0 {
		text := string(bytes.ToValidUTF8(body, []byte("\ufffd")))
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind == "application/octet-stream" || strings.HasPrefix(kind, "multipart/") {
			text = base64.StdEncoding.EncodeToString(body)
		}
		v.Body = &text
	}
	inv.data.addPayload(string(body))
	for name, value := range query {
		if !strings.EqualFold(name, "code") { // A key, if anything.
			inv.data.set(name, value)
		}
	}
	for name, value := range params {
		inv.data.set(name, value)
	}
	if _, ok := inv.data.get("Query"); !ok {
		inv.data.set("Query", query)
	}
	if _, ok := inv.data.get("Headers"); !ok {
		inv.data.set("Headers", headers)
	}
	inv.trigger = v
}

// anonymous is the identity of an unauthenticated client, in .NET's form.
var anonymous = map[string]any{
	"AuthenticationType": nil, "IsAuthenticated": false, "Actor": nil, "BootstrapContext": nil, "Claims": []any{},
	"Label": nil, "Name": nil,
	"NameClaimType": "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
	"RoleClaimType": "http://schemas.microsoft.com/ws/2008/06/identity/claims/role",
}

// httpResult is the answer to a request.
type httpResult struct {
	status  int
	headers http.Header
	body    []byte
}

// http makes the answer of the http output: an object with statusCode (or status), headers and body; for $return also
// any other value, which is then the body.
func (r *response) http(f *function) (*httpResult, error) {
	result := &httpResult{status: http.StatusOK, headers: http.Header{}}
	i := slices.IndexFunc(f.out, func(b *binding) bool { return b.kind == kindHTTP })
	if i < 0 {
		// A function with an HTTP trigger and no output answers without a body.
		result.status = http.StatusNoContent
		return result, nil
	}
	b := f.out[i]
	v := r.output(f, b)
	switch {
	case !v.present():
		return result, nil
	case v.HTTP != nil:
		return b.httpResult(v.HTTP)
	case v.JSON == nil:
		result.body = b.content(v).data
		return result, nil
	}
	value := v.JSON
	text := []byte(rawText(value))
	var members map[string]json.RawMessage
	isObject := json.Unmarshal(text, &members) == nil && members != nil
	member := func(name string) json.RawMessage {
		for n, v := range members {
			if strings.EqualFold(n, name) {
				return present(v)
			}
		}
		return nil
	}
	if b.name == returnName {
		// Before the members are looked at: bytes that happen to be an object are a body.
		if c := b.content(v); c.decoded {
			result.body = c.data
			return result, nil
		}
		_, hasBody := members["body"]
		// An object without a body is the body itself: functions return their data so.
		if !isObject || !hasBody && member("body") == nil {
			result.setBody(value)
			return result, nil
		}
	} else if !isObject {
		return nil, fmt.Errorf("the http output %s is not an object with statusCode, headers and body: %.200s", b.name, text)
	}
	for name, raw := range httpHeaders(member("headers")) {
		result.headers[name] = raw
	}
	status := member("statusCode")
	// Both names are in use: .NET writes statusCode, handlers in other languages often status.
	if status == nil {
		status = member("status")
	}
	if status != nil {
		if n, err := strconv.Atoi(rawText(status)); err == nil {
			if err := result.setStatus(b, n); err != nil {
				return nil, err
			}
		}
	}
	result.setBody(member("body"))
	return result, nil
}

// httpResult makes the answer of a language worker's http output.
func (b *binding) httpResult(v *HTTPResponse) (*httpResult, error) {
	result := &httpResult{status: http.StatusOK, headers: http.Header{}}
	for name, values := range v.Header {
		if !hopByHop(name) {
			result.headers[name] = values
		}
	}
	if v.Status != 0 {
		if err := result.setStatus(b, v.Status); err != nil {
			return nil, err
		}
	}
	switch {
	case v.Body == nil:
	case v.Body.JSON == nil:
		result.body = b.content(*v.Body).data
	default:
		result.setBody(v.Body.JSON)
	}
	return result, nil
}

func (r *httpResult) setStatus(b *binding, n int) error {
	if n < 200 || n > 999 {
		return fmt.Errorf("the http output %s has the status %d, which no answer can have", b.name, n)
	}
	r.status = n
	return nil
}

// hopByHop reports whether a header is one that the host sets itself.
func hopByHop(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Connection":
		return true
	}
	return false
}

// setBody makes a body of a value: text as it is, everything else as JSON.
func (r *httpResult) setBody(value json.RawMessage) {
	if present(value) == nil {
		return
	}
	kind := "application/json; charset=utf-8"
	if value[0] == '"' {
		kind = "text/plain; charset=utf-8"
	}
	if r.headers.Get("Content-Type") == "" {
		r.headers.Set("Content-Type", kind)
	}
	r.body = []byte(rawText(value))
}

// httpHeaders reads headers. It ignores hop-by-hop headers, which the host sets itself.
func httpHeaders(raw json.RawMessage) http.Header {
	h := http.Header{}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return h
	}
	for name, value := range members {
		if hopByHop(name) {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(value, &list) != nil {
			list = []json.RawMessage{value}
		}
		for _, v := range list {
			if present(v) != nil {
				h.Add(name, rawText(v))
			}
		}
	}
	return h
}

func (r *httpResult) send(w http.ResponseWriter) {
	for name, values := range r.headers {
		w.Header()[name] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // None, rather than one that is guessed.
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // An error means that the client has disconnected.
}
