// Package lazulitest runs the whole of Lazuli inside a Go test: the Blob, Queue and Table services on free ports,
// with state that is gone when the test ends. It starts in a few dozen milliseconds.
//
//	func TestOrders(t *testing.T) {
//		lazuli := lazulitest.Start(t)
//		client, err := azqueue.NewServiceClientFromConnectionString(lazuli.ConnectionString(), nil)
//		...
//	}
//
// Tests of workers take an account of their own, which has what they need over and over:
//
//	account := lazuli.Account(t)
//	app := workers.New(workers.Config{Storage: account.Storage})
//	app.Queue("orders", ship)
//	account.Run(app)
//	account.Put("orders", Order{ID: 42})
//	account.Drain()
//	account.RequireEnqueued("invoices", Invoice{Order: 42})
//	account.RequireEntity("Shipped", "eu", "42", nil)
//
// A test moves time with a [Clock], breaks steps of workers with [Faults], and lets requests fail with a [FaultRule].
package lazulitest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
)

// Lazuli is a running server that belongs to a test.
type Lazuli struct {
	server   *server.Server
	accounts *auth.Accounts

	mu   sync.Mutex     // guards made
	made []auth.Account // all that accounts has
}

// Option changes what [Start] runs.
type Option func(*config)

// config holds what Start runs.
type config struct {
	server.Config
	blob  accountprops.Blob // of accounts that have no settings of their own
	clock *Clock
	rules []FaultRule
}

// WithClock makes the services take the time from now instead of the system: message visibility, expiry and leases
// follow it. Clients go on to sign with the system's time.
func WithClock(now func() time.Time) Option {
	return func(c *config) { c.Now, c.ClientsNow = now, time.Now }
}

// WithFakeClock is WithClock for a clock that the test moves. Requests that wait for a message hear of every Advance.
func WithFakeClock(clock *Clock) Option {
	return func(c *config) {
		WithClock(clock.Now)(c)
		c.clock = clock
	}
}

// WithLog sends what the services log to log: at debug level every request. Without it nothing is logged.
func WithLog(log *slog.Logger) Option {
	return func(c *config) { c.Log, c.Observe = log, observe.RequestLog(log) }
}

// WithData keeps the state in the folder dir, durably, so that a second Start finds it. Without it the state is in
// memory.
func WithData(dir string) Option {
	return func(c *config) { c.Location, c.InMemory = dir, false }
}

// WithBlobVersions keeps the previous states of blobs as versions, as lazuli serve --blob-versioning does.
func WithBlobVersions() Option { return func(c *config) { c.blob.Versioning = true } }

// WithBlobImmutability is WithBlobVersions with immutability policies and legal holds for the blobs of all containers.
func WithBlobImmutability() Option {
	return func(c *config) { c.blob.Versioning, c.blob.Immutability = true, true }
}

// WithHierarchicalNamespace gives the account directories, access control lists and atomic renames: Data Lake Storage
// Gen2. Clients find the dfs endpoint at the port of the Blob service.
func WithHierarchicalNamespace() Option { return func(c *config) { c.blob.Hierarchical = true } }

// WithFault adds a fault rule: requests that it matches fail on purpose, so that a test sees what its client makes of
// it. More rules can be added with [Lazuli.AddFault] while the server runs.
func WithFault(rule FaultRule) Option {
	return func(c *config) { c.rules = append(c.rules, rule) }
}

// WithContainerSoftDelete lets deleted containers be restored for so many days.
func WithContainerSoftDelete(days int) Option {
	return func(c *config) { c.blob.ContainerDays = days }
}

// stopTimeout is the time that the end of a test waits for requests in flight.
const stopTimeout = 3 * time.Minute

// Start runs the three services until the test and its subtests end. It fails the test if they do not start.
func Start(t testing.TB, options ...Option) *Lazuli {
	t.Helper()
	c := config{Config: server.Config{InMemory: true, Faults: true, Log: slog.New(slog.DiscardHandler)}}
	for _, o := range options {
		o(&c)
	}
	made := []auth.Account{*auth.Development().Get(auth.DevelopmentAccount)}
	accounts, err := auth.NewManagedAccounts(c.blob, made...)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	c.Accounts = accounts
	s, err := server.Start(c.Config)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	if c.clock != nil {
		c.clock.onChange(s.ClockChanged)
	}
	l := &Lazuli{server: s, accounts: accounts, made: made}
	t.Cleanup(func() { l.stop(t) })
	for _, r := range c.rules {
		l.AddFault(t, r)
	}
	return l
}

// Stop ends the server before the test does: with [WithData], another Start goes on with what it left.
func (l *Lazuli) Stop(t testing.TB) {
	t.Helper()
	l.stop(t)
}

func (l *Lazuli) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := l.server.Stop(ctx); err != nil {
		t.Errorf("lazulitest: stop: %v", err)
	}
}

// ConnectionString returns what the Azure SDKs connect with. The account is devstoreaccount1.
func (l *Lazuli) ConnectionString() string { return l.server.ConnectionString() }

// Client returns a client that reaches the services without a connection, at the addresses of the connection string.
// The clients of an [Account] use it.
func (l *Lazuli) Client() *http.Client { return l.server.Client() }

// BlobURL returns the account's endpoint of the Blob service, "http://127.0.0.1:41234/devstoreaccount1".
func (l *Lazuli) BlobURL() string { return l.url(wire.Blob) }

// QueueURL returns the account's endpoint of the Queue service.
func (l *Lazuli) QueueURL() string { return l.url(wire.Queue) }

// TableURL returns the account's endpoint of the Table service.
func (l *Lazuli) TableURL() string { return l.url(wire.Table) }

func (l *Lazuli) url(s wire.Service) string { return l.server.URL(s, auth.DevelopmentAccount) }
