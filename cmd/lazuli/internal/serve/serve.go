package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/observe/spans"
	"github.com/lazuli-storage/lazuli/internal/server/seed"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Backend is the running services as this verb needs them.
type Backend interface {
	// URL is an account's endpoint of a service.
	URL(service wire.Service, account string) string
	// Path is the data folder, and Shards the number of its shards.
	Path() string
	Shards() int
	// Ready returns nil while the services serve, and otherwise why they do not.
	Ready() error
	// Complete returns nil if the services serve and this node has complete copies, and otherwise what is missing.
	Complete(ctx context.Context) error
	// Stop lets running requests end until ctx is done, then closes everything.
	Stop(ctx context.Context) error
	// Transport carries requests to the services without a network.
	Transport() *inproc.Transport

	// InProcess carries requests of the server itself, without a credential, to the endpoints of InProcessURL.
	InProcess() http.RoundTripper
	InProcessURL(service wire.Service, account string) string

	// Faults are the rules by which requests fail on purpose; nil where they are not allowed.
	Faults() *faultrule.Set

	// AccountManager adds, changes and removes accounts; nil where that is not allowed.
	AccountManager() *accounts.Manager

	// Events delivers the events of accounts; nil where that is not allowed.
	Events() *events.Manager
	// EventsElsewhere is the reason if another node of the cluster delivers them; nil otherwise.
	EventsElsewhere() error

	// ClockChanged wakes what waits, after the test clock was set.
	ClockChanged()

	// Promoted is closed once a standby was promoted; nil for a server that was none.
	Promoted() <-chan struct{}

	admin.State
	admin.Cluster
	admin.Backups
	admin.Standby
	// ArchiveSent returns the progress of the archive; see [server.Server].
	ArchiveSent() (archive.Sent, bool)
	// ArchiveMoment returns the state of a shard for a base of the archive.
	ArchiveMoment(ctx context.Context, shard int, held backup.Held) (backup.Source, error)
}

// Starter starts a backend; [startStack] is the real one.
type Starter func(ctx context.Context, c *config.Config, sec *Security, o Options) (Backend, error)

// Options hold what the services share with the process.
type Options struct {
	metrics prometheus.Registerer
	log     *slog.Logger
	observe observer
	waiting func(reason string) // called while a node waits for its cluster
	clock   *serverClock        // nil: the system's clock
	archive *archive.Archive    // nil without one
	standby *archive.Follower   // nil unless this is a standby
	tier    *tier.Options       // nil without one
}

// lateBackend is a backend that may not have started yet.
type lateBackend struct{ p atomic.Pointer[Backend] }

// errStarting is the answer to what needs the backend before it has started.
var errStarting = errors.New("starting")

func (l *lateBackend) set(b Backend) { l.p.Store(&b) }

// get returns the backend, nil before it has started.
func (l *lateBackend) get() Backend {
	if b := l.p.Load(); b != nil {
		return *b
	}
	return nil
}

// late returns a function that calls f with the backend, and returns the zero value before that has started.
func late[T any](l *lateBackend, f func(Backend) T) func() T {
	return func() (v T) {
		if b := l.get(); b != nil {
			return f(b)
		}
		return v
	}
}

// serving holds what the parts of a running process share.
type serving struct {
	config  *config.Result
	sec     *Security
	log     *slog.Logger
	metrics *prometheus.Registry
	seed    *seed.Seed // nil without one

	backend lateBackend
	waiting atomic.Pointer[string] // why the start waits

	adminURL   string // "" without an admin listener
	adminToken string // that its callers bring, "" for none
	tokenMade  bool   // the token is random

	backups  *backup.Schedule  // nil without one
	archive  *archive.Archive  // nil without one
	standby  *archive.Follower // nil unless this is a standby
	tier     *tier.Options     // nil without one
	requests *requestlog.Log   // nil without a dashboard
	clock    *serverClock      // nil without --test-clock
}

// Run runs the services until ctx is cancelled. A nil start is [startStack].
func Run(ctx context.Context, c *config.Result, start Starter, stdout, stderr io.Writer, began time.Time) (err error) {
	if start == nil {
		start = startStack
	}
	log, closeLog, err := newLogger(&c.Config, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	for _, note := range c.Notes {
		log.Warn(note)
	}
	sec, err := newSecurity(&c.Config, log)
	if err != nil {
		return console.Usage(err)
	}
	defer sec.watch(c.AccountsFile, log)()
	defer gctuner.Default.Start()()

	s := &serving{config: c, sec: sec, log: log, metrics: prometheus.NewRegistry()}
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if c.Seed != "" {
		if s.seed, err = loadSeed(c.Seed, sec.accounts); err != nil {
			return console.Usage(err)
		}
	}
	if !c.NoAdmin {
		server, err := s.startAdmin()
		if err != nil {
			return err
		}
		defer func() { // last: while the services drain, /readyz says so
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = server.Stop(ctx) // an interrupted scrape is not an error
		}()
	}
	if s.backups, err = newSchedule(s); err != nil {
		return err
	}
	if s.archive, err = newArchive(s); err != nil {
		return err
	}
	if s.tier, err = TierOptions(s.config.Tier); err != nil {
		return err
	}
	return s.run(ctx, start, stdout, began)
}

// run starts the services and stops them when ctx is cancelled.
func (s *serving) run(ctx context.Context, start Starter, stdout io.Writer, began time.Time) error {
	c := s.config
	stopTraces, err := workerproc.StartTraces(ctx, "lazuli", s.log)
	if err != nil {
		return err
	}
	defer stopTraces()
	observe := s.requests.Observer()
	if p, on := otel.GetTracerProvider().(*sdktrace.TracerProvider); on { // the environment asks for traces
		observe = observers(observe, spans.New(p).Observe)
	}
	b, err := start(ctx, &c.Config, s.sec,
		Options{s.metrics, s.log, observe, s.wait, s.clock, s.archive, s.standby, s.tier})
	if err != nil {
		return err
	}
	if err := s.applySeed(ctx, b); err != nil {
		return errors.Join(err, stop(b, c.ShutdownTimeout))
	}
	s.backend.set(b)
	writeBanner(stdout, banner{config: c, accounts: s.sec.accounts.ConfiguredNames(), added: s.sec.accounts.AddedCount(),
		backend: b, admin: s.adminURL,
		login: s.loginURL(), took: time.Since(began)})
	notifySystemd("READY=1", s.log)
	defer s.startBackups(ctx, b)()
	keepHistory := s.keepHistory(b)
	if _, err := gctuner.ReleaseProgram(); err != nil {
		s.log.Debug("the memory of the start could not be released", "err", err)
	}

	<-ctx.Done()
	notifySystemd("STOPPING=1", s.log)
	s.log.Info("stopping", "wait", c.ShutdownTimeout.String())
	keepHistory() // while the folder is ours
	if err := stop(b, c.ShutdownTimeout); err != nil {
		return err
	}
	s.log.Info("stopped")
	return nil
}

// keepHistory begins to keep the figures that the dashboard shows, and returns what ends it.
func (s *serving) keepHistory(b Backend) (stop func()) {
	if s.requests == nil {
		return func() {}
	}
	folder := b.Path()
	if s.config.InMemory {
		folder = ""
	}
	return s.requests.Figures.Keep(b, folder, s.log)
}

// loginURL returns the address at which a browser opens the dashboard with a token that was made at the start; "" if
// there is no such token.
func (s *serving) loginURL() string {
	if !s.tokenMade {
		return ""
	}
	return s.adminURL + admin.LoginPath + "?token=" + s.adminToken
}

// wait records why the start waits.
func (s *serving) wait(reason string) { s.waiting.Store(&reason) }

// ready returns nil while the services serve, and otherwise why they do not.
func (s *serving) ready() error {
	if b := s.backend.get(); b != nil {
		return b.Ready()
	}
	if reason := s.waiting.Load(); reason != nil {
		return fmt.Errorf("waiting: %s", *reason)
	}
	return errStarting
}

// complete returns nil if the server is ready and has complete copies, and otherwise what is missing.
func (s *serving) complete(ctx context.Context) error {
	if b := s.backend.get(); b != nil {
		return b.Complete(ctx)
	}
	return s.ready()
}

// applySeed creates what the seed has, if there is one.
func (s *serving) applySeed(ctx context.Context, b Backend) error {
	if s.seed == nil {
		return nil
	}
	if err := applySeed(ctx, s.seed, b); err != nil {
		return err
	}
	if err := addEvents(ctx, s.seed, b, s.log); err != nil {
		return err
	}
	return addFaults(s.seed, b) // last: the seed itself must not meet them
}

func stop(b Backend, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// newLogger makes the log that the configuration asks for, and a function that closes it.
func newLogger(c *config.Config, stderr io.Writer) (*slog.Logger, func() error, error) {
	w, done := stderr, func() error { return nil }
	if c.LogFile != "" {
		f, err := os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("log file: %w", err)
		}
		w, done = f, f.Close
	}
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.Silent && c.LogFile == "" {
		o.Level = slog.LevelError
	}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), done, nil
	}
	return slog.New(slog.NewTextHandler(w, o)), done, nil
}
