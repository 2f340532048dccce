package queuesvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Config configures a Queue service. Either Folder or InMemory is required.
type Config struct {
	// Folder is the data folder, which the service locks. It is created if it does not exist.
	Folder string
	// InMemory keeps nothing after Close: the state is in files without names, on a temporary file system.
	InMemory bool
	// Relaxed acknowledges writes before they are synced. They survive a crash of the process, not of the machine.
	Relaxed bool
	// Accounts are the keys of the storage accounts in base64, by the names of the accounts: 3 to 24 lower-case letters
	// and digits. Nil is the development account devstoreaccount1 alone, whose key is public.
	Accounts map[string]string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger

	hosted // what the server of this module sets in place of the fields above
}

type (
	hosted = service.Slot[queuehost.Config]
	parts  = service.Slot[queuehost.Parts]
)

// Service is the Queue service. It is safe for concurrent use.
type Service struct {
	parts

	state      *state.Store
	log        *slog.Logger
	front      *frontend.Frontend[*Service, *call]
	common     frontend.Common
	now        func() time.Time
	properties *properties.Registry
	folder     *service.Folder    // nil in a server
	nats       *natsserver.Server // has the log of the queues; nil in a server
}

// New opens the queues and returns when they can be used. Call Close after the last request. It fails if another
// process uses the folder, and if files that the folder had are missing or damaged; `lazuli fsck` says which.
func New(c Config) (*Service, error) {
	if host := service.Get(&c.hosted); host != nil {
		return open(*host)
	}
	folder, common, err := service.Alone{Folder: c.Folder, InMemory: c.InMemory, Accounts: c.Accounts, Now: c.Now,
		Log: c.Log}.Open()
	if err != nil {
		return nil, fmt.Errorf("queuesvc: %w", err)
	}
	s, nats, err := openAlone(folder, common, c.InMemory, c.Relaxed)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	s.folder, s.nats = folder, nats
	if err := folder.Record(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openAlone opens the service with a log of its own, which a NATS server inside the process keeps.
func openAlone(folder *service.Folder, common frontend.Common, inMemory, relaxed bool) (*Service, *natsserver.Server,
	error) {
	log := natsserver.Config{Log: common.Log}
	if !inMemory {
		log.Dir, log.Relaxed = folder.Queues(), relaxed
	}
	nats, err := natsserver.Start(log)
	if err != nil {
		return nil, nil, err
	}
	options, err := state.StoreOptions(context.Background(), nats, common.Log)
	if err == nil {
		var s *Service
		if s, err = open(queuehost.Config{Common: common, Path: folder.QueueState(), Store: options}); err == nil {
			return s, nats, nil
		}
	}
	nats.Close()
	return nil, nil, err
}

// open opens the service with the configuration of a server.
func open(c queuehost.Config) (*Service, error) {
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
		state.Options{Store: c.Store, Properties: s.properties.Changed, Now: s.now, Log: s.log,
			FirstID: shardmap.First(c.Shard)}); err != nil {
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
	service.Put(&s.parts, &queuehost.Parts{State: s.state, Properties: s.properties,
		Operations: frontend.Rows(operations)})
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
func (s *Service) Ready() error { return s.state.Database().Failed() }

// Handler serves the Queue service.
func (s *Service) Handler() http.Handler { return s.front }

// Close stops background work and closes the files. It may be called twice.
func (s *Service) Close() error {
	err := s.state.Close()
	if s.nats != nil { // after the state, which follows its log
		s.nats.Close()
	}
	return errors.Join(err, s.folder.Close())
}

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
