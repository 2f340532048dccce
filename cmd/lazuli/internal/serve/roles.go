package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/adminhttp"
	"github.com/lazuli-storage/lazuli/workers/otelfunc"
)

// serverRoles are the worker roles that run inside the server.
type serverRoles struct {
	account string
	app     atomic.Pointer[workers.App] // nil until they run
	set     *workerproc.Roles
	traces  func() // sends the last traces
}

// rolesAccount is the name of the account that the server's roles use.
func rolesAccount(c *config.Config, sec *Security) string { return cmp.Or(c.Roles.Account, sec.first) }

// newServerRoles fails for an account that there is not.
func newServerRoles(c *config.Config, sec *Security) (*serverRoles, error) {
	account := rolesAccount(c, sec)
	if sec.accounts.Get(account) == nil {
		return nil, console.Usagef("roles-account: unknown account %q", account)
	}
	return &serverRoles{account: account}, nil
}

// observe wakes the roles that listen to a queue when a message was put.
func (r *serverRoles) observe(q *wire.Request, o frontend.Outcome) {
	if q.Operation != "PutMessage" || q.Failure != nil || q.Account != r.account {
		return
	}
	if app := r.app.Load(); app != nil {
		queue, _, _ := strings.Cut(strings.TrimPrefix(q.RawPath, "/"), "/")
		app.Wake(queue)
	}
}

// createTimeout bounds the creation of what the roles need, clusterCreateTimeout on a node of a cluster, which may have
// no majority for some time.
const (
	createTimeout        = 30 * time.Second
	clusterCreateTimeout = 3 * time.Minute
)

// start runs the roles that the configuration enables, over the stack's in-process transport.
func (r *serverRoles) start(s *server.Server, c *config.Config, metrics prometheus.Registerer, clock workers.Clock,
	log *slog.Logger) error {
	storage, err := inProcessStorage(s, r.account)
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: storage, HostID: "lazuli", Logger: log, DrainTimeout: c.ShutdownTimeout,
		Clock: clock, Heartbeat: hostrow.Every})
	r.set = &workerproc.Roles{App: app, Storage: storage, Config: c.Roles, Log: log, Creates: true,
		SearchFolder: workerproc.ServerSearchFolder(c, r.account), SearchTables: func(x *searchproc.Config) {
			x.InProcess, x.TablesURL = s.InProcess(), s.InProcessURL(wire.Table, r.account)
		}}
	// A cluster may still have to elect leaders, which a single server never does.
	limit := createTimeout
	if c.Cluster.Enabled() {
		limit = clusterCreateTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	app.Use(otelfunc.Middleware())
	// What was started is ended in the reverse order if a later step fails; after this block only set is left to close.
	if r.traces, err = workerproc.StartTraces(ctx, "lazuli", log); err == nil {
		if err = r.set.Add(ctx, c.Roles.Enabled); err == nil {
			// The app ends by its own Stop, which lets handlers finish. The context here ends with the start.
			err = app.Start(context.Background())
		}
		if err != nil {
			r.traces()
		}
	}
	if err != nil {
		return errors.Join(err, r.set.Close(ctx))
	}
	metrics.MustRegister(app.Collector())
	// Stored last: handlers of the admin listener take the app from here while it starts.
	r.app.Store(app)
	log.Info("worker roles started", "roles", c.Roles.Enabled, "account", r.account)
	return nil
}

// stop lets what the roles have begun end, until ctx is done.
func (r *serverRoles) stop(ctx context.Context) error {
	defer r.traces()
	return errors.Join(r.app.Load().Stop(ctx), r.set.Close(ctx))
}

// restart stops the roles while do replaces the state, makes what they need again, and starts them.
func (r *serverRoles) restart(ctx context.Context, do func() error) error {
	app := r.app.Load()
	err := app.Stop(ctx)
	if err == nil {
		err = do()
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterCreateTimeout)
	defer cancel()
	return errors.Join(err, r.set.Create(limit), app.Start(context.Background()))
}

// workersHandler shows the state of the roles, as `lazuli workers` asks for it.
func (r *serverRoles) workersHandler() http.Handler { return adminhttp.NewHandler(r.app.Load()) }

// searchHandler serves the index of the search-index role.
func (r *serverRoles) searchHandler() http.Handler { return r.set.SearchHandler() }

// ofRoles serves what the roles of a backend have, which may not be there yet.
func ofRoles(services *lateBackend, handler func(*serverRoles) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if with, ok := services.get().(*workerBackend); ok && with.roles != nil {
			handler(with.roles).ServeHTTP(w, q)
			return
		}
		http.Error(w, errStarting.Error(), http.StatusServiceUnavailable)
	})
}

// inProcessStorage is an account of the stack as clients that use no connection and no credential.
func inProcessStorage(s *server.Server, account string) (*workers.Storage, error) {
	retry := inProcessRetries
	if s.Replicated() { // requests are answered 503 while a leader is elected
		retry = policy.RetryOptions{MaxRetries: 10, RetryDelay: 100 * time.Millisecond, MaxRetryDelay: 3 * time.Second}
	}
	return workerproc.StorageOver(s.InProcess(), account, retry, s.InProcessURL)
}

// inProcessRetries are the retries of clients inside the process.
var inProcessRetries = policy.RetryOptions{MaxRetries: 2, RetryDelay: 100 * time.Millisecond}

// workerBackend is a stack with what works on it, which stops first.
type workerBackend struct {
	*server.Server
	roles   *serverRoles // nil: none
	durable *Durable     // nil: no workflows

	mu sync.Mutex // held while both pause or stop
}

// Reset implements admin.State. Roles and workflows pause while it runs, and find what they need when it returns.
func (b *workerBackend) Reset(ctx context.Context, scope server.Scope) (deleted map[wire.Service]int, err error) {
	err = b.paused(ctx, func() (err error) {
		deleted, err = b.Server.Reset(ctx, scope)
		return err
	})
	return deleted, err
}

// Restore implements admin.State, as Reset does.
func (b *workerBackend) Restore(ctx context.Context, name string) error {
	return b.paused(ctx, func() error { return b.Server.Restore(ctx, name) })
}

// paused calls do while neither roles nor workflows run.
func (b *workerBackend) paused(ctx context.Context, do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.durable != nil {
		replace := do
		do = func() error { return b.durable.restart(replace) }
	}
	if b.roles == nil {
		return do()
	}
	return b.roles.restart(ctx, do)
}

// Stop implements backend.
func (b *workerBackend) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.durable != nil {
		err = b.durable.stop()
	}
	if b.roles != nil {
		err = errors.Join(err, b.roles.stop(ctx))
	}
	return errors.Join(err, b.Server.Stop(ctx))
}
