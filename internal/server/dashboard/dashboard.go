package dashboard

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/blobpages"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/functionpages"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/queuepages"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/tablepages"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/workflowpages"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// Backend is the running server. A [server.Server] implements it.
type Backend interface {
	// URL is an account's endpoint of a service.
	URL(service wire.Service, account string) string
	// Path returns the data folder.
	Path() string
	// Ready returns nil while the services serve.
	Ready() error
	// Transport carries requests to the services.
	Transport() *inproc.Transport
	// Faults are the fault rules; nil where they are not allowed.
	Faults() *faultrule.Set
	// Events delivers the events of accounts; nil where they are not allowed.
	Events() *events.Manager

	// ArchiveSent returns the progress of the archive, StandbyStatus that of a standby; see [server.Server].
	ArchiveSent() (sent archive.Sent, ok bool)
	StandbyStatus() (archive.Status, error)
	// ClusterStatus asks all nodes of the cluster; see [server.Server].
	ClusterStatus(ctx context.Context) (*cluster.Status, error)

	Reset(ctx context.Context, scope server.Scope) (map[wire.Service]int, error)
	Save(ctx context.Context, name string, replace bool) error
	Restore(ctx context.Context, name string) error
	Snapshots() ([]datadir.Snapshot, error)
	RemoveSnapshot(name string) error
}

// Clock is a clock that can be set forward; see the admin listener's.
type Clock interface {
	Offset() time.Duration
	Change(text string) error
}

// Options configure the dashboard. Backend, Accounts and Requests are required.
type Options struct {
	// Backend returns the server, or nil while it starts.
	Backend func() Backend
	// Accounts are the accounts that are served.
	Accounts *auth.Accounts
	// Requests are the latest requests.
	Requests *requestlog.Log
	// Workers answers what the workers of this process do, as the admin listener's /workers; nil without workers.
	Workers http.Handler
	// WorkersAccount is the account whose queues the workers read.
	WorkersAccount string
	// Workflows returns the HTTP management API of a task hub, or nil if the account has no such hub; a nil function is a
	// server without it.
	Workflows func(ctx context.Context, account, hub string) (http.Handler, error)
	// FunctionHosts are the addresses, host:port, of the function apps whose functions are shown and run.
	FunctionHosts []string
	// State allows resets, snapshots and the seed.
	State bool
	// Seed creates the resources of the seed that do not exist; nil is no seed.
	Seed func(context.Context) error
	// ReadOnly refuses every change.
	ReadOnly bool
	// Clock is the test clock; nil is a server on the system's clock.
	Clock Clock
	// InMemory says that nothing is kept.
	InMemory bool
	// Cluster adds the page of the cluster of which the server is a node with data.
	Cluster bool
	// Version is the program's version, for people.
	Version string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
}

//go:embed templates
var files embed.FS

// dashboard serves the pages that are about the server as a whole.
type dashboard struct {
	*frame.Site
	options Options
	started time.Time
}

// New makes the dashboard's handler for the paths below [frame.Prefix].
func New(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := frame.New(frame.Site{Accounts: o.Accounts, ReadOnly: o.ReadOnly, Cluster: o.Cluster,
		Version: o.Version, Now: o.Now, Log: o.Log,
		Backend: func() frame.Services {
			if b := o.Backend(); b != nil {
				return b
			}
			return nil // and not an interface that holds a nil
		}})
	addDashboard(s, o)
	blobpages.Add(s)
	queuepages.Add(s, o.Requests.Figures)
	tablepages.Add(s)
	workflowpages.Add(s, o.Workflows)
	functionpages.Add(s, o.FunctionHosts, o.Workers, o.WorkersAccount)
	return s.Handler()
}

// addDashboard adds the pages that are about the server as a whole.
func addDashboard(s *frame.Site, o Options) {
	d := &dashboard{Site: s, options: o, started: time.Now()}
	s.Templates(files)
	s.Route("{$}", d.home, nil)
	s.Route("accounts", d.accounts, nil)
	s.Route("accounts/{account}", d.account, nil)
	s.Route("accounts/{account}/sas", d.sas, d.makeSAS)
	s.Route("accounts/{account}/search", d.search, nil)
	s.Route("cluster", d.cluster, nil)
	s.Route("events", d.events, d.changeEvents)
	s.Route("trace", d.trace, nil)
	s.Route("trace.json", d.traceJSON, nil)
	s.Route("live", d.live, nil)
	s.Route("requests", d.requests, nil)
	s.Route("requests.csv", d.requestsCSV, nil)
	s.Route("requests/live", d.liveRequests, nil)
	s.Route("requests/{id}", d.request, nil)
	s.Route("control", d.control, d.changeControl)
}
