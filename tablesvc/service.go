package tablesvc

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures a Table service. Either Folder or InMemory is required.
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
	hosted = service.Slot[tablehost.Config]
	parts  = service.Slot[tablehost.Parts]
)

// Service is the Table service. It is safe for concurrent use.
type Service struct {
	parts

	state      *state.Store
	front      *frontend.Frontend[*Service, *call]
	properties *properties.Registry
	common     frontend.Common
	now        func() time.Time
	folder     *service.Folder // nil in a server
}

// New opens the service's file and starts its background work. Call Close after the last request. It fails if another
// process uses the folder, and if files that the folder had are missing or damaged; `lazuli fsck` says which.
func New(c Config) (*Service, error) {
	if host := service.Get(&c.hosted); host != nil {
		return open(*host)
	}
	folder, common, err := service.Alone{Folder: c.Folder, InMemory: c.InMemory, Accounts: c.Accounts, Now: c.Now,
		Log: c.Log}.Open()
	if err != nil {
		return nil, fmt.Errorf("tablesvc: %w", err)
	}
	s, err := open(tablehost.Config{Common: common, Path: folder.Tables(),
		Store: store.Options{Relaxed: c.Relaxed, Ephemeral: c.InMemory, Logger: c.Log}})
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	s.folder = folder
	if err := folder.Record(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the service with the configuration of a server.
func open(c tablehost.Config) (*Service, error) {
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
	s.state.InShard(c.Shard)
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
	service.Put(&s.parts, &tablehost.Parts{State: s.state, Properties: s.properties,
		Operations: frontend.Rows(operations)})
	return s, nil
}

// follower returns what follows the changes of other nodes.
func (s *Service) follower() state.Follower {
	return state.Follower{
		Properties: s.properties.Changed,
		Changed:    func(account, table string) { s.common.Board.Touch(boardKey(account, table)) },
	}
}

// Handler serves the Table service.
func (s *Service) Handler() http.Handler { return s.front }

// Ready returns nil if writes are accepted, and otherwise the reason: a sync has failed, and the file must be opened
// again.
func (s *Service) Ready() error { return s.state.Failed() }

// Close ends background work and closes the files. It may be called twice.
func (s *Service) Close() error { return errors.Join(s.state.Close(), s.folder.Close()) }

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
