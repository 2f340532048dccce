package blobsvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Config is what the service works with.
type Config struct {
	// Path is the database with everything but content; Extents is the folder of the content. They are created if
	// absent, in a folder that exists. Required.
	Path, Extents string
	// Relaxed acknowledges writes before they are synced. Ephemeral keeps nothing past the process.
	Relaxed, Ephemeral bool
	// Features are the analytics settings that may be turned on. The zero value refuses all.
	Features properties.Features
	// Common is handed to the front-end: accounts, clock, log. Accounts are required; they have the settings of each, see
	// [accountprops.Blob].
	frontend.Common
	// Egress is from which hosts copy sources may be fetched; the zero value allows none but this process itself.
	Egress egress.Policy
	// CopyPause is the pause before a pending copy tries its source again; it grows with each failure. 0 is a second.
	CopyPause time.Duration
	// CopyTimeout is how long a copy source outside this process may take for its answer, and for each next 64 KiB of its
	// content. 0 is 30 seconds.
	CopyTimeout time.Duration
	// Changed, if set, is told of every blob that was created or written - content, properties, metadata, tags or tier - once
	// that is durable, and before the client is answered. It must not block, and must not call the service before it has
	// returned. Several goroutines call it at once: of two writes of one blob, the later one may be told first. What is
	// written while the process dies may not be told: who must see every change reads the containers as well.
	Changed func(account, container, blob string)
	// ScopeKeys is the file of the keys of the accounts' encryption scopes, which is created when there is one. Without it, and
	// with Ephemeral, keys last as long as the process.
	ScopeKeys string
	// CleanEvery is the pause between two rounds of background work: removing what was deleted, expiring uncommitted
	// blocks, compacting extents. 0 is a second; negative runs no background work at all, for tests that call
	// [Service.Clean].
	CleanEvery time.Duration
}

// Service is the Blob service. Its methods are safe for concurrent use.
type Service struct {
	db       *store.DB
	extents  *extent.Store
	accounts *auth.Accounts
	callers  *auth.Authenticator // of copy sources
	egress   *egress.Policy
	web      *http.Client // for copy sources elsewhere
	// sourceTimeout is Config.CopyTimeout.
	sourceTimeout time.Duration
	copier
	now        func() time.Time
	log        *slog.Logger
	ticks      ticks.Source
	handler    http.Handler
	properties *properties.Registry
	scopes     *encryption.Scopes
	expirer    expirer
	accesses   accesses
	// feedWriter is held while the change feed is written.
	feedWriter sync.Mutex
	changed    func(account, container, blob string)
	common     frontend.Common
	feed       *longpoll.Feed // what was written lately; nil without a board to wait on

	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
	err    error // of the first Close
	cleaner
}

// The levels of a path.
const (
	onService   frontend.Level = "service"
	onContainer frontend.Level = "container"
	onBlob      frontend.Level = "blob"
)

// call is one request to the service: the parsed request and what its path names.
type call struct {
	*wire.Request
	// container and blob are decoded names; "" where the path is of a higher level.
	container, blob string
	// identity is who calls.
	identity auth.Identity
	// key and sourceKey are a customer's keys, of the blob and of a copy's source; nil for none.
	key, sourceKey *encryption.CustomerKey
	// under is how the call's transaction encrypted what it wrote.
	under encryption.ID
	// freed is the content in bytes that the call's transaction gave up.
	freed int64
	// wrote is the id of the version that the call's transaction made, 0 for none.
	wrote ticks.Ticks
	// expires is set if the call's transaction wrote a blob that does.
	expires bool
	// changed is set if the call's transaction wrote the blob.
	changed bool
	// before is what the call's transaction overwrites or changes, for the feed.
	before previousState
	// set are the settings of the account, once they were asked for, see [Service.managed].
	set *accountprops.Blob
}

// managed are the settings of the call's account. They are the same throughout the call, also if the account gets others meanwhile.
func (s *Service) managed(c *call) *accountprops.Blob {
	if c.set == nil {
		c.set = s.accounts.Blob(c.Account)
	}
	return c.set
}

// New opens the state and starts the service. Close it.
func New(c Config) (*Service, error) {
	s := &Service{
		accounts: c.Accounts,
		callers:  c.Authenticator(),
		now:      c.Now,
		log:      c.Log,
		changed:  c.Changed,
		common:   c.Common,
		egress:   &c.Egress,
		copier:   newCopier(c.CopyPause),
		cleaner:  newCleaner(),
	}
	s.sourceTimeout = cmp.Or(c.CopyTimeout, remoteTimeout)
	s.web = c.Egress.Client(s.sourceTimeout)
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if c.Board != nil {
		s.feed = longpoll.NewFeed(c.Board)
	}
	var err error
	keys := c.ScopeKeys
	if c.Ephemeral {
		keys = ""
	}
	declared := func(account string) []string { return s.accounts.Blob(account).Scopes }
	if s.scopes, err = encryption.OpenScopes(keys, declared); err == nil {
		for _, account := range s.accounts.Names() { // so that a file that cannot be written ends the start
			err = errors.Join(err, s.scopes.Declare(account))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encryption scopes: %w", err)
	}
	s.db, err = store.Open(c.Path, store.Options{Buckets: Buckets(), Relaxed: c.Relaxed, Ephemeral: c.Ephemeral})
	if err != nil {
		return nil, err
	}
	s.extents, err = extent.Open(c.Extents, extent.Options{Relaxed: c.Relaxed, Ephemeral: c.Ephemeral, Refs: s.allReferences})
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.properties = properties.NewRegistry(wire.Blob, supported(c.Features), properties.Backend{Store: s.storeProperties}, s.log)
	if err := s.loadProperties(); err != nil {
		return nil, errors.Join(err, s.db.Close(), s.extents.Close())
	}
	s.handler = frontend.New(frontend.Config[*Service, *call]{
		Service:    wire.Blob,
		State:      s,
		Operations: operations,
		Resolve:    (*Service).resolve,
		Render:     wire.RenderXML,
		Admit:      (*Service).admit,
		Policy:     (*Service).policy,
		Before:     (*Service).before,
		Errors:     azureError,
		Common:     c.Common,
	})
	s.expiryKnown()
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	if err := s.resumeCopies(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if c.CleanEvery >= 0 {
		s.done.Go(func() { s.cleanForever(ctx, cmp.Or(c.CleanEvery, time.Second)) })
	}
	return s, nil
}

// Handler serves the Blob protocol, and static websites.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Close ends the background work and closes the state. Requests must have ended before; calling it twice is fine.
func (s *Service) Close() error {
	s.closed.Do(func() {
		s.stop()
		s.done.Wait()
		s.web.CloseIdleConnections()
		s.err = errors.Join(s.db.Close(), s.extents.Close())
	})
	return s.err
}

// admit notes who calls, and lets anonymous callers read public containers.
// https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure
func (s *Service) admit(c *call, id auth.Identity, need auth.Need) error {
	c.identity = id
	if c.blob != "" && !need.Record {
		if err := c.refuseRecord(); err != nil {
			return err
		}
	}
	if id.Mechanism != auth.Anonymous {
		return c.mayLogs(need)
	}
	var rec Container
	err := s.db.View(func(tx *store.Tx) (err error) {
		rec, err = getContainer(tx, c.Account, c.container)
		return err
	})
	if err == nil && (rec.Access == "container" || rec.Access == "blob" && need.Public == auth.PublicBlob) {
		return nil
	}
	if err != nil && err != errContainerNotFound {
		return err
	}
	return frontend.RefuseAnonymous(c.Request)
}

// policy finds a stored access policy of the container that a call names.
func (s *Service) policy(c *call, id string) (p auth.Policy, found bool, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		rec, err := getContainer(tx, c.Account, c.container)
		if errors.Is(err, errContainerNotFound) {
			return nil
		}
		p, found = properties.FindPolicy(rec.Policies, id)
		return err
	})
	return p, found, err
}
