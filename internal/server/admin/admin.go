package admin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// Options configure the admin endpoints.
type Options struct {
	// Ready returns nil while the process serves requests, otherwise the reason why not. It is called for each request
	// and must be quick. A nil function is always ready.
	Ready func() error
	// Complete returns nil if the process is ready and has complete copies of all that it is to have, otherwise the
	// reason why not; it may ask the other nodes of a cluster. Nil is Ready.
	Complete func(context.Context) error
	// Metrics are shown at /metrics; nil leaves the path out.
	Metrics prometheus.Gatherer
	// Pprof adds /debug/pprof/.
	Pprof bool
	// Issuer answers below /oauth, without that prefix, and at the paths of Microsoft Entra ID; nil leaves these paths
	// out.
	Issuer http.Handler
	// Workers answers below /workers, without that prefix: the live state of the functions that the process runs. Nil
	// leaves the path out.
	Workers http.Handler
	// Functions answers below /functions, without that prefix: the functions of a function app and their invocations.
	// Nil leaves the path out.
	Functions http.Handler
	// Search answers at /search and below: searches in the index of the search-index role. Nil leaves the paths out.
	Search http.Handler
	// State answers below /admin: resets and snapshots of all data. It returns nil while the services start. Without it
	// these paths are refused.
	State func() State
	// Seed creates the resources of the seed that do not exist; nil is no seed.
	Seed func(context.Context) error
	// Faults answers below /admin/faults: the rules by which requests fail on purpose. It returns nil while the
	// services start. Without it the path is refused.
	Faults func() *faultrule.Set
	// Events answers below /admin/events: the event subscriptions. It returns nil while the services start. Without it
	// the path is refused.
	Events func() *events.Manager
	// EventsElsewhere returns why a node of a cluster has no Events: another node delivers them. Nil on a single
	// server.
	EventsElsewhere func() error
	// Accounts answers below /admin/accounts: the accounts, which callers may add, change and remove. It returns nil
	// while the services start. Without it the path is refused. It needs Token.
	Accounts func() *accounts.Manager
	// Clock answers at /admin/clock; nil is a server on the system's clock.
	Clock Clock
	// Cluster answers below /admin/cluster: the state of the cluster. It returns nil while the services start. Without
	// it the path answers 404.
	Cluster func() Cluster
	// Standby answers below /admin/standby: what a standby has, and its promotion. It returns nil while the services
	// start. Without it the path answers 404.
	Standby func() Standby
	// Backups answers at /admin/backup; it returns nil while the services start. Without it the path is refused.
	Backups func() Backups
	// BackupToken is a token that opens /admin/backup alone; "" for none. Without it and without Token, only callers on
	// this machine may use the path.
	BackupToken string
	// UI is the dashboard, which answers below /ui/; nil leaves it out.
	UI http.Handler
	// Token holds what requests must bring, except for /healthz, /readyz, /metrics and the issuer; "" for nothing.
	Token string
	// AllowHosts are host names, without port, that requests may name in addition to IP addresses and localhost.
	AllowHosts []string
	// TLS, if set, serves https at the same address as http: client libraries call token issuers only over https.
	TLS *tls.Config
	// Log is for errors of the HTTP server; nil is slog.Default().
	Log *slog.Logger
}

// readiness answers /readyz, and /readyz?copies=complete, which also waits for the copies of this node.
func readiness(o *Options) echo.HandlerFunc {
	return func(c echo.Context) error {
		var err error
		switch copies := c.QueryParam("copies"); {
		case copies != "" && copies != "complete":
			return c.String(http.StatusBadRequest, "copies is complete, or is left out\n")
		case copies != "" && o.Complete != nil:
			err = o.Complete(c.Request().Context())
		case o.Ready != nil:
			err = o.Ready()
		}
		if err != nil {
			return c.String(http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
		}
		return c.String(http.StatusOK, "ready\n")
	}
}

// NewHandler returns the endpoints.
func NewHandler(o Options) http.Handler {
	e := echo.New()
	e.Pre(guard(o.AllowHosts))
	if o.Token != "" {
		e.Pre(needToken(o.Token, o.BackupToken))
	}
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", readiness(&o))
	if o.Metrics != nil {
		e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{})))
	}
	if o.UI != nil {
		e.GET("/", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/ui/") })
		e.Any("/ui", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/ui/") })
		e.GET(LoginPath, login(o.Token))
		e.Any("/ui/*", echo.WrapHandler(o.UI))
	}
	if o.Issuer != nil {
		e.Any("/oauth/*", echo.WrapHandler(http.StripPrefix("/oauth", o.Issuer)))
		// The path of the instance metadata service, which libraries append to the host that
		// AZURE_POD_IDENTITY_AUTHORITY_HOST names.
		e.Any("/metadata/identity/oauth2/token", echo.WrapHandler(o.Issuer))
		// for libraries that take an authority as a host
		for _, path := range []string{"/:tenant/v2.0/*", "/:tenant/oauth2/*", "/:tenant/discovery/*"} {
			e.Any(path, echo.WrapHandler(o.Issuer))
		}
	}
	if o.Workers != nil {
		e.Any("/workers", echo.WrapHandler(http.StripPrefix("/workers", slashed(o.Workers))))
		e.Any("/workers/*", echo.WrapHandler(http.StripPrefix("/workers", o.Workers)))
	}
	if o.Functions != nil {
		e.Any("/functions", echo.WrapHandler(http.StripPrefix("/functions", slashed(o.Functions))))
		e.Any("/functions/*", echo.WrapHandler(http.StripPrefix("/functions", o.Functions)))
	}
	if o.Search != nil {
		e.Any("/search", echo.WrapHandler(o.Search))
		e.Any("/search/*", echo.WrapHandler(o.Search))
	}
	if o.Faults != nil {
		faultHandler{o.Faults}.routes(e)
	} else {
		e.Any("/admin/faults", refuseFaults)
		e.Any("/admin/faults/*", refuseFaults)
	}
	if o.Events != nil {
		eventHandler{o.Events, o.EventsElsewhere}.routes(e)
	} else {
		e.Any("/admin/events", refuseEvents)
		e.Any("/admin/events/*", refuseEvents)
	}
	// Its responses have keys: without a token nothing of it is served, whatever the caller of NewHandler asked for.
	if o.Accounts != nil && o.Token != "" {
		accountHandler{o.Accounts}.routes(e)
	} else {
		e.Any("/admin/accounts", refuseAccounts)
		e.Any("/admin/accounts/*", refuseAccounts)
	}
	if o.Clock != nil {
		clockHandler{o.Clock}.routes(e)
	} else {
		e.Any("/admin/clock", refuseClock)
	}
	if o.Cluster != nil {
		clusterHandler{o.Cluster}.routes(e)
	} else {
		e.Any("/admin/cluster", notClustered)
		e.Any("/admin/cluster/*", notClustered)
	}
	if o.Standby != nil {
		standbyHandler{o.Standby}.routes(e)
	} else {
		e.Any(StandbyPath, noStandby)
		e.Any(PromotePath, noStandby)
	}
	if o.Backups != nil {
		send := echo.HandlerFunc(backupHandler{o.Backups}.send)
		switch {
		case o.Token != "": // needToken has asked for one of them
		case o.BackupToken != "":
			send = needToken(o.BackupToken, "")(send)
		default:
			send = localOnly(send)
		}
		e.POST(BackupPath, send)
	}
	if o.State != nil {
		stateHandler{state: o.State, seed: o.Seed}.routes(e)
	} else {
		// The routes above are more specific, and are preferred to this one.
		e.Any("/admin/*", refuseState)
	}
	if o.Pprof {
		e.GET("/debug/pprof/cmdline", echo.WrapHandler(http.HandlerFunc(pprof.Cmdline)))
		e.GET("/debug/pprof/profile", echo.WrapHandler(http.HandlerFunc(pprof.Profile)))
		e.GET("/debug/pprof/symbol", echo.WrapHandler(http.HandlerFunc(pprof.Symbol)))
		e.GET("/debug/pprof/trace", echo.WrapHandler(http.HandlerFunc(pprof.Trace)))
		e.GET("/debug/pprof/*", echo.WrapHandler(http.HandlerFunc(pprof.Index)))
	}
	return e
}

// slashed replaces the empty path, which StripPrefix leaves, by the root.
func slashed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" {
			r.URL.Path = "/"
		}
		h.ServeHTTP(w, r)
	})
}

// Server serves the endpoints on one listener.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Start serves on l, which the server closes when it stops.
func Start(l net.Listener, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Server{
		http: &http.Server{
			Handler:           NewHandler(o),
			ReadHeaderTimeout: 10 * time.Second,
			// No write timeout: event streams of the dashboard and profiles last as long as the reader wants.
			IdleTimeout:    time.Minute,
			MaxHeaderBytes: 16 << 10,
			ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	serve := []func() error{func() error { return s.http.Serve(l) }}
	if o.TLS != nil {
		s.http.TLSConfig = o.TLS.Clone()
		// Plain and TLS on one port, so that probes and Prometheus need no certificate.
		mux := httpserver.NewProtocolMux(l)
		serve = []func() error{
			func() error { return s.http.Serve(mux.Plain()) },
			func() error { return s.http.ServeTLS(mux.TLS(), "", "") },
			func() error { mux.Wait(); return http.ErrServerClosed },
		}
	}
	// Stop waits for done: all of the listeners must have ended, or a port would still answer.
	var running sync.WaitGroup
	for _, f := range serve {
		running.Go(func() {
			// The usual end. Any other error means that the listener answers no more while the services go on.
			if err := f(); err != http.ErrServerClosed {
				o.Log.Error("admin listener failed", "err", err)
			}
		})
	}
	go func() { running.Wait(); close(s.done) }()
	return s
}

// Stop waits for requests under way until ctx ends, then ends them. It may be called twice.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	<-s.done
	return err
}
