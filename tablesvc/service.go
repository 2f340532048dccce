package tablesvc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures a service.
type Config struct {
	// Path is the file of all state: <data>/tables.db. Required. It is created if it does not exist.
	Path string
	// Store are the options of the file, such as durability. The service sets Buckets.
	Store store.Options
	// Features are the service properties, beside CORS rules, that the program honours: writers of logs and metrics read
	// them with [Service.ServiceProperties]. Set Table Service Properties answers 501 to any other.
	Features properties.Features
	// Common are accounts, clock and log.
	frontend.Common
}

// Service is the Table service. It is safe for concurrent use.
type Service struct {
	state      *state.Store
	front      *frontend.Frontend[*Service, *call]
	properties *properties.Registry
	common     frontend.Common
	now        func() time.Time
}

// New opens the service's file and starts its background work. Call Close after the last request.
func New(c Config) (*Service, error) {
	if c.Path == "" || c.Accounts == nil {
		return nil, errors.New("tablesvc: Config.Path and Config.Accounts are required")
	}
	s := &Service{common: c.Common, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	log := c.Log
	if log == nil {
		log = slog.Default()
	}
	var err error
	// Before the state, whose log may bring changes of properties as soon as it is open.
	s.properties = properties.NewRegistry(wire.Table, c.Features,
		properties.Backend{Change: s.changeProperties, Reports: c.Store.Log != nil}, log)
	if s.state, err = state.Open(c.Path, c.Store, s.follower(), log); err != nil {
		return nil, err
	}
	if err := s.state.EachServiceProperties(s.properties.Load); err != nil {
		return nil, errors.Join(err, s.state.Close())
	}
	s.front = frontend.New(frontend.Config[*Service, *call]{
		Service:    wire.Table,
		State:      s,
		Operations: operations,
		Resolve:    resolve,
		Render:     renderError,
		Admit:      (*Service).admit,
		Policy:     (*Service).policy,
		Before:     (*Service).before,
		Errors:     azureError,
		Common:     c.Common,
	})
	return s, nil
}

// follower returns what follows the changes of other nodes.
func (s *Service) follower() state.Follower {
	return state.Follower{
		Properties: s.properties.Changed,
		Changed:    func(account, table string) { s.common.Board.Touch(boardKey(account, table)) },
	}
}

// Database returns the database, to be pinned with those of the other services.
func (s *Service) Database() *store.DB { return s.state.Database() }

// Replication returns the state of the replicated log; ok is false for a service of a single machine.
func (s *Service) Replication() (r replog.Status, ok bool) { return s.state.Replication() }

// Snapshot puts a snapshot of the tables into their replicated log, for nodes that join; see [store.DB.Snapshot].
func (s *Service) Snapshot(ctx context.Context) error { return s.state.Snapshot(ctx) }

// Handler serves the Table service.
func (s *Service) Handler() http.Handler { return s.front }

// Ready returns nil if writes are accepted, and otherwise the reason: a sync has failed, and the file must be opened
// again.
func (s *Service) Ready() error { return s.state.Failed() }

// Damages returns the number of reads since the start that failed because the file is damaged.
func (s *Service) Damages() int64 { return s.state.Damages() }

// Size returns the size of the database on disk in bytes.
func (s *Service) Size() (int64, error) { return s.state.Size() }

// Commits returns how many groups of writes were committed, and the writes in them.
func (s *Service) Commits() (groups, updates int64) { return s.state.Commits() }

// Close ends background work and closes the file. It may be called twice; the second call returns nil.
func (s *Service) Close() error { return s.state.Close() }

// admit keeps the caller's identity in the call and refuses anonymous callers. It is the front-end's Admit.
func (s *Service) admit(c *call, id auth.Identity, need auth.Need) error {
	if id.Mechanism == auth.Anonymous {
		return frontend.RefuseAnonymous(c.Request)
	}
	c.caller = id
	return c.checkAnalytics(c.table, need)
}

// before sets the headers that all answers have. It is the front-end's Before.
func (s *Service) before(r *wire.Request) {
	s.properties.SetCORS(r)
	if r.Comp == "" && r.HTTP.Method != http.MethodOptions {
		setODataHeaders(r)
	}
}
