package server

import (
	"net/http"
	"net/url"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

// Transport carries requests to the services inside the process, at the addresses that [Server.URL] returns. It refuses
// other addresses.
func (s *Server) Transport() *inproc.Transport {
	t := &inproc.Transport{Handlers: make(map[string]http.Handler)}
	for _, srv := range s.listeners {
		u, err := url.Parse(s.URL(srv.service, ""))
		if err != nil {
			panic("server: an address of its own does not parse: " + err.Error())
		}
		t.Handlers[u.Host] = s.handler(srv.service)
	}
	return t
}

// Client returns a client that reaches the services inside the process, at the addresses of [Server.ConnectionString].
// It saves the connection, and nothing else: requests are authorized, counted and logged as those of other programs.
// Clients of the Azure SDK take it as their Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// InProcess carries requests to the services without a connection, at the addresses of [Server.InProcessURL]. It trusts
// its caller: requests need no credential, may do everything, and are neither counted nor logged.
func (s *Server) InProcess() http.RoundTripper {
	t := &inproc.Transport{Handlers: map[string]http.Handler{}}
	for svc, host := range hosts {
		t.Handlers[host] = s.handler(svc)
	}
	return asSystem{t}
}

// InProcessURL returns an account's endpoint of a service for [Server.InProcess].
func (s *Server) InProcessURL(svc wire.Service, account string) string {
	return "http://" + hosts[svc] + "/" + account
}

// asSystem marks requests as requests of the server itself.
type asSystem struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t asSystem) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(r.WithContext(wire.WithSystem(r.Context())))
}
