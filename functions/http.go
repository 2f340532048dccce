package functions

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/route"
	"github.com/lazuli-storage/lazuli/internal/httpserver/originguard"
)

// httpHandler serves HTTP triggers and the host's own paths.
func (h *Host) httpHandler() http.Handler {
	web := &web{host: h, own: h.ownPaths()}
	for _, f := range h.project.functions {
		if f.trigger.kind == kindHTTPTrigger {
			web.functions = append(web.functions, f)
		}
	}
	slices.SortStableFunc(web.functions, func(a, b *function) int { return route.Compare(a.route, b.route) })
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
	if !s.host.keys.AdmitTo(w, r, f.authLevel, f.name) {
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
		s.host.passOn(w, r, f)
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
		if values, ok := f.route.Find(path); ok {
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
	case origin == "" || len(local.CORS) == 0:
		return false, false
	case slices.Contains(local.CORS, "*"):
		w.Header().Set("Access-Control-Allow-Origin", "*")
	case slices.ContainsFunc(local.CORS, func(o string) bool { return strings.EqualFold(o, origin) }):
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Add("Vary", "Origin")
	default:
		return false, false
	}
	if local.CORSCredentials {
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
