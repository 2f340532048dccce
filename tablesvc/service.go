package tablesvc

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Config is what a service is made of.
type Config struct {
	// Path is the file that holds everything: <data>/tables.db. Required. It is created if it is not there.
	Path string
	// Store are the options of the file: durability above all. Buckets are set by the service.
	Store store.Options
	// Features are the service properties beside CORS rules that somebody honours: who writes logs and metrics reads
	// them with [Service.ServiceProperties]. Turning on another is refused with 501.
	Features properties.Features
	// Common are accounts, clock and log.
	frontend.Common
}

// Service is the Table service. It is an http.Handler by way of [Service.Handler] and safe for concurrent use.
type Service struct {
	db         *store.DB
	front      *frontend.Frontend[*Service, *call]
	now        func() time.Time
	ticks      ticks.Source // of Timestamps
	properties *properties.Registry

	tables  tableIDs
	changes changeLog
	common  frontend.Common
	reaper  *reaper
	close   sync.Once
}

// Open opens or creates the file of a Table service, for [Check] and other tools.
func Open(path string, o store.Options) (*store.DB, error) {
	o.Buckets = Buckets()
	return store.Open(path, o)
}

// New opens the service's file and starts its background work. Call Close when no requests are served any more.
func New(c Config) (*Service, error) {
	if c.Path == "" || c.Accounts == nil {
		return nil, errors.New("tablesvc: Config.Path and Config.Accounts are required")
	}
	db, err := Open(c.Path, c.Store)
	if err != nil {
		return nil, fmt.Errorf("opening table store: %w", err)
	}
	s := &Service{db: db, now: c.Now, common: c.Common}
	if s.now == nil {
		s.now = time.Now
	}
	s.properties = properties.NewRegistry(wire.Table, c.Features, properties.Backend{Store: s.storeProperties}, c.Log)
	s.front = frontend.New(frontend.Config[*Service, *call]{
		Service:    wire.Table,
		State:      s,
		Operations: operations,
		Resolve:    resolve,
		Render:     renderError,
		Admit:      (*Service).admit,
		Policy:     (*Service).policy,
		Before:     (*Service).before,
		Common:     c.Common,
	})
	if err := s.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.reaper = startReaper(db, s.front.Log)
	return s, nil
}

// Handler serves the Table service.
func (s *Service) Handler() http.Handler { return s.front }

// Close ends background work and closes the file. It may be called twice.
func (s *Service) Close() error {
	var err error
	s.close.Do(func() {
		s.reaper.stop()
		err = s.db.Close()
	})
	return err
}

// load reads what is kept in memory.
func (s *Service) load() error {
	return s.db.View(func(tx *store.Tx) error {
		watched, _ := tx.Cursor(bucketWatched).Seek([]byte{0})
		s.changes.on.Store(watched != nil)
		prefix := propertiesKey("")
		c := tx.Cursor(bucketService)
		for k, v := c.Seek(prefix); k != nil && len(k) >= len(prefix) && string(k[:len(prefix)]) == string(prefix); k, v = c.Next() {
			if err := s.properties.Load(string(k[len(prefix):]), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// tick returns a new Timestamp: now, or just after the last one that was handed out.
func (s *Service) tick() ticks.Ticks { return s.ticks.Next(s.now()) }

// admit remembers who calls, for operations that check more than their need. It is the front-end's Admit.
func (s *Service) admit(c *call, id auth.Identity, need auth.Need) error {
	if id.Mechanism == auth.Anonymous {
		return frontend.RefuseAnonymous(c.Request)
	}
	c.caller = id
	return c.mayAnalytics(c.table, need)
}

// before sets the headers that all answers share. It is the front-end's Before.
func (s *Service) before(r *wire.Request) {
	s.properties.SetCORS(r)
	if r.Comp == "" && r.HTTP.Method != http.MethodOptions {
		setODataHeaders(r)
	}
}
