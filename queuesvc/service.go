package queuesvc

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
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures a Queue service.
type Config struct {
	// Path is the file of all state: <data>/queues.db. Required. It is created if it does not exist.
	Path string
	// Store are the options of the file, with the log that it follows; see [state.StoreOptions]. The service sets
	// Buckets.
	Store store.Options
	// Features are the analytics settings that may be enabled. The zero value refuses all.
	Features properties.Features
	// Common has accounts, clock and log. Accounts are required.
	frontend.Common
}

// Service is the Queue service. It is safe for concurrent use.
type Service struct {
	state      *state.Store
	log        *slog.Logger
	front      *frontend.Frontend[*Service, *call]
	common     frontend.Common
	now        func() time.Time
	properties *properties.Registry
}

// New opens the queues and returns when they can be used. Call Close after the last request.
func New(c Config) (*Service, error) {
	if c.Path == "" || c.Accounts == nil {
		return nil, errors.New("queuesvc: Config.Path and Config.Accounts are required")
	}
	s := &Service{log: c.Log, common: c.Common, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	// Before the state: opening it reports properties that other nodes have changed.
	s.properties = properties.NewRegistry(wire.Queue, c.Features,
		properties.Backend{Change: s.changeProperties, Reports: true}, s.log)
	var err error
	if s.state, err = state.Open(c.Path,
		state.Options{Store: c.Store, Properties: s.properties.Changed, Now: s.now, Log: s.log}); err != nil {
		return nil, err
	}
	// Requests come only after New returned, so none sees an account without its CORS rules.
	if err := s.state.EachProperties(s.properties.Load); err != nil {
		return nil, errors.Join(err, s.state.Close())
	}
	s.front = frontend.New(frontend.Config[*Service, *call]{
		Service:    wire.Queue,
		State:      s,
		Operations: operations,
		Resolve:    resolve,
		Render:     wire.RenderXML,
		Policy:     (*Service).policy,
		Admit:      (*Service).admit,
		Before:     (*Service).before,
		Errors:     azureError,
		Common:     c.Common,
	})
	return s, nil
}

// admit records the caller's identity. It is the front-end's Admit.
func (s *Service) admit(c *call, id auth.Identity, _ auth.Need) error {
	c.identity = id
	if id.Mechanism == auth.Anonymous {
		return frontend.RefuseAnonymous(c.Request)
	}
	return nil
}

// Ready returns nil if changes are accepted, and otherwise the reason: a sync of the file has failed, and it must be
// opened again.
func (s *Service) Ready() error { return s.Database().Failed() }

// Damage returns the number of messages that cannot be read and were set aside, in the queues that have been used since
// the start, and of queues that are not used because records of them were lost.
func (s *Service) Damage() (messages, queues int) { return s.state.Damage() }

// Handler serves the Queue service.
func (s *Service) Handler() http.Handler { return s.front }

// Replication returns the state of the log; ok is false for a service without one.
func (s *Service) Replication() (r replog.Status, ok bool) { return s.Database().Replication() }

// Snapshot puts a snapshot of the queues into their log, for nodes that join; see [store.DB.Snapshot].
func (s *Service) Snapshot(ctx context.Context) error { return s.Database().Snapshot(ctx) }

// Database returns the database, to be pinned with those of the other services.
func (s *Service) Database() *store.DB { return s.state.Database() }

// Size returns the size of the database on disk in bytes.
func (s *Service) Size() (int64, error) { return s.Database().Size() }

// Damages returns the number of reads since the start that failed because the file is damaged.
func (s *Service) Damages() int64 { return s.Database().Damages() }

// Close stops background work and closes the file. It may be called twice; the second call returns nil.
func (s *Service) Close() error { return s.state.Close() }

// policy returns a stored access policy of the queue in the request. It is the front-end's Policy.
func (s *Service) policy(c *call, id string) (auth.Policy, bool, error) {
	if c.queue == "" {
		return auth.Policy{}, false, nil
	}
	list, err := s.policiesOf(c.Account, c.queue)
	if errors.Is(err, state.ErrQueueNotFound) {
		return auth.Policy{}, false, nil
	}
	if err != nil {
		return auth.Policy{}, false, err
	}
	p, found := properties.FindPolicy(list, id)
	return p, found, nil
}

// before sets the headers of cross-origin answers. It is the front-end's Before.
func (s *Service) before(r *wire.Request) { s.properties.SetCORS(r) }

// changeProperties replaces the service properties of an account.
func (s *Service) changeProperties(_ context.Context, account string,
	change func([]byte) (*properties.Properties, []byte, error)) error {
	return s.state.ChangeProperties(account, func(old []byte) ([]byte, error) {
		_, value, err := change(old)
		return value, err
	})
}
