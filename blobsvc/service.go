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

	"github.com/lazuli-storage/lazuli/blobsvc/internal/changefeed"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/lakesvc"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/website"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// Config configures the service.
type Config struct {
	// Path is the database with everything but content; Extents is the folder of the content. They are created if
	// absent, in a folder that exists. Required.
	Path, Extents string
	// Relaxed acknowledges writes before they are synced. Ephemeral keeps nothing past the process.
	Relaxed, Ephemeral bool
	// Cluster makes the service that of a node of a cluster. Follower is set by New.
	Cluster *replica.Cluster
	// Features are the analytics settings that may be turned on. The zero value refuses all.
	Features properties.Features
	// Common is handed to the front-end: accounts, clock, log. Accounts are required; they have the settings of each, see
	// [accountprops.Blob].
	frontend.Common
	// Egress is from which hosts copy sources may be fetched; the zero value allows none but this process itself.
	Egress egress.Policy
	// CopyPause is the pause before a pending copy tries its source again; it grows with each failure. 0 is a second.
	CopyPause time.Duration
	// CopyTimeout is the time that a copy source outside this process may take for its answer, and for each next 64 KiB of
	// its content. 0 is 30 seconds.
	CopyTimeout time.Duration
	// Changed, if set, is called for every blob that was created or written - content, properties, metadata, tags or tier
	// - once that is durable, and before the response is sent. It must not block, and must not call the service before it
	// has returned. Several goroutines call it at once: of two writes of one blob, the later one may be reported first. A
	// write that commits while the process dies may not be reported: a caller that must see every change reads the
	// containers as well. blob is "" after paths of many blobs changed: a directory of a tree was renamed or restored.
	Changed func(account, container, blob string)
	// LogEvents records the events of accounts with event subscriptions, see [Service.LoggedEvents]. EventLogged, if set,
	// is called with the account once the write that caused an event is durable, and before the response is sent. It must
	// not block.
	LogEvents   bool
	EventLogged func(account string)
	// Subscribed, if set, is called on a node of a cluster after any node has changed an event subscription. It must not
	// block.
	Subscribed func()
	// ScopeKeys is the file of the keys of the accounts' encryption scopes, which is created when there is one. Without
	// it, and with Ephemeral, keys last as long as the process.
	ScopeKeys string
	// CleanEvery is the pause between two rounds of background work: removing what was deleted, expiring uncommitted
	// blocks, compacting extents. 0 is a second; negative runs no background work at all, for tests that call
	// [Service.Clean].
	CleanEvery time.Duration
}

// Service is the Blob service. Its methods are safe for concurrent use.
type Service struct {
	storage    *endpoint.Storage // what both endpoints share, of which the next four fields are parts
	state      *state.Store
	accounts   *auth.Accounts
	egress     *egress.Policy
	scopes     *encryption.Scopes
	properties *properties.Registry
	sources    *copysource.Fetcher
	copies     *copysource.Copier
	website    *website.Handler
	background *background
	wake       chan struct{} // of background
	front      *frontend.Frontend[*Service, *call]
	lake       http.Handler // of the dfs endpoint
	now        func() time.Time
	log        *slog.Logger
	changed    func(account, container, blob string)
	common     frontend.Common
	feed       *longpoll.Feed // recent writes; nil without a board to wait on

	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
	err    error // of the first Close
}

// call is one request to the service.
type call = endpoint.Call

// New opens the state and starts the service. Close it.
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Service{wake: make(chan struct{}, 1), accounts: c.Accounts, egress: &c.Egress, now: c.Now,
		log: c.Log, changed: c.Changed, common: c.Common}
	if c.Board != nil {
		s.feed = longpoll.NewFeed(c.Board)
	}
	if err := s.openState(&c); err != nil {
		return nil, err
	}
	s.sources = copysource.NewFetcher(&c.Egress, c.CopyTimeout, c.Log)
	s.copies = copysource.NewCopier(
		copysource.CopierConfig{State: s.state, Scopes: s.scopes, Sources: s.sources, Pause: c.CopyPause, Now: c.Now,
			Log: c.Log, Errors: endpoint.AzureError})
	s.website = &website.Handler{Blobs: s.state.Blobs, Properties: s.properties, Errors: endpoint.AzureError,
		Common: c.Common}
	s.background = &background{state: s.state, copies: s.copies, scopes: s.scopes,
		feeds: &changefeed.Writer{State: s.state}, accounts: s.accounts.Names, now: c.Now, log: c.Log, wake: s.wake}
	if c.Space != nil {
		s.background.full = c.Space.Full
	}
	blob := endpoint.Config(s, s.storage)
	blob.Operations, blob.Resolve, blob.Common = operations, (*Service).resolve, c.Common
	blob.Touch = func(s *Service, c *call, touches []frontend.Touch) error {
		return c.Touch(touches, func(t *frontend.Touch) (endpoint.Source, error) { return s.source(c, t) })
	}
	s.front = frontend.New(blob)
	s.lake = lakesvc.New(lakesvc.Config{Storage: s.storage, ListBlobs: s.listBlobs, Common: c.Common})
	if err := s.checkNamespaces(); err != nil {
		return nil, errors.Join(err, s.state.Close())
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	// In a cluster the node that does the background work continues the copies.
	if !s.state.Membership.Replicated() {
		if err := s.copies.Resume(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if c.CleanEvery >= 0 {
		s.done.Go(func() { s.background.run(ctx, cmp.Or(c.CleanEvery, time.Second)) })
	}
	return s, nil
}

// openState opens the keys of encryption scopes and the state, and loads the service properties.
func (s *Service) openState(c *Config) (err error) {
	keys := c.ScopeKeys
	// A cluster keeps the keys in its database, and nothing ephemeral is kept in a file.
	if c.Ephemeral || c.Cluster != nil {
		keys = ""
	}
	declared := func(account string) []string { return s.accounts.Blob(account).Scopes }
	s.scopes, err = encryption.OpenScopes(keys, declared)
	if err == nil && c.Cluster == nil {
		err = s.declareScopes() // so that a file that cannot be written ends the start
	}
	if err != nil {
		if c.Cluster != nil {
			c.Cluster.Log.Close()
		}
		return fmt.Errorf("encryption scopes: %w", err)
	}
	s.properties = properties.NewRegistry(wire.Blob, supported(c.Features), properties.Backend{Change: s.changeProperties},
		s.log)
	s.storage = &endpoint.Storage{Accounts: s.accounts, Properties: s.properties, Scopes: s.scopes,
		Wake: func() { s.background.Wake() }}
	if c.Cluster != nil {
		c.Cluster.Follower = s.follower(c)
	}
	s.state, err = state.Open(state.Config{Path: c.Path, Extents: c.Extents, Logger: c.Log, Relaxed: c.Relaxed,
		Ephemeral: c.Ephemeral, Scopes: s.scopes,
		Policy: s.storage.Policy, Changed: s.blobChanged, LogEvents: c.LogEvents, EventLogged: c.EventLogged,
		Cluster: c.Cluster})
	if err != nil {
		return err
	}
	s.storage.State = s.state
	if c.Cluster != nil {
		// The keys of a cluster are in the state, which is open only now.
		if err := s.declareScopes(); err != nil {
			return errors.Join(fmt.Errorf("encryption scopes: %w", err), s.state.Close())
		}
	}
	if err := s.state.Accounts.EachProperties(s.properties.Load); err != nil {
		return errors.Join(err, s.state.Close())
	}
	return nil
}

// checkNamespaces fails if the namespace of an account is not of the kind that its containers have.
func (s *Service) checkNamespaces() error {
	if s.state.Membership.Replicated() {
		return nil // which may not be readable yet; the first container that would differ is refused
	}
	for _, account := range s.accounts.Names() {
		is, known, err := s.state.Accounts.Namespace(account)
		if err != nil {
			return err
		}
		if known && is != s.storage.Hierarchical(account) {
			return fmt.Errorf("account %s: the setting hierarchical-namespace is %v, and its containers were created with "+
				"%v: it is fixed once an account has a container", account, !is, is)
		}
	}
	return nil
}

// declareScopes creates keys for the scopes of all accounts that have none.
func (s *Service) declareScopes() (err error) {
	for _, account := range s.accounts.Names() {
		err = errors.Join(err, s.scopes.Declare(account))
	}
	return err
}

// follower returns what follows the changes of other nodes.
func (s *Service) follower(c *Config) replica.Follower {
	return replica.Follower{
		Properties: s.properties.Changed,
		Written: func(account, container, blob string) {
			if s.feed != nil {
				s.feed.Add(longpoll.Key(account, container), blob)
			}
		},
		CopyBegun: func() {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		},
		EventLogged: c.EventLogged, Subscribed: c.Subscribed,
	}
}

// Replication returns the state of the replicated log; ok is false for a service of a single machine.
func (s *Service) Replication() (r replog.Status, ok bool) { return s.state.Membership.Replication() }

// Snapshot puts a snapshot of the metadata into the replicated log, for nodes that join; see [store.DB.Snapshot].
func (s *Service) Snapshot(ctx context.Context) error { return s.state.Membership.Snapshot(ctx) }

// MissingContent returns how many bytes of content this node of a cluster lacks. It fetches them on demand, and copies
// them in the background. known is false until all other nodes have said since its start what they have.
func (s *Service) MissingContent() (missing int64, known bool) { return s.state.Membership.Behind() }

// HealedContent returns the number of damaged records of content that were replaced by copies of other nodes.
func (s *Service) HealedContent() int64 { return s.state.Membership.Healed() }

// blobChanged reports a blob that was created or written, see Config.Changed.
func (s *Service) blobChanged(account, container, blob string) {
	if s.changed != nil {
		s.changed(account, container, blob)
	}
	if s.feed != nil && !s.state.Membership.Replicated() { // otherwise follower does
		s.feed.Add(longpoll.Key(account, container), blob)
	}
}

// Handler serves the Blob protocol, and static websites at their host names.
func (s *Service) Handler() http.Handler {
	byHost := s.byHost(false)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if account := s.website.Account(r.Host); account != "" {
			s.website.Serve(w, r, account)
			return
		}
		byHost.ServeHTTP(w, r)
	})
}

// Close ends the background work and closes the state. Requests must have ended before; calling it twice is fine.
func (s *Service) Close() error {
	s.closed.Do(func() {
		// All work on the state ends before the state is closed.
		s.stop()
		s.state.Membership.Interrupt()
		s.done.Wait()
		s.copies.Close()
		s.sources.Close()
		s.err = s.state.Close()
	})
	return s.err
}

// Ready returns nil if writes are accepted, and otherwise the reason: a sync has failed, and the database must be
// opened again.
func (s *Service) Ready() error { return s.state.Failed() }

// Damages returns the number of reads since the start that failed because the database, or the content, is damaged.
func (s *Service) Damages() (metadata, content int64) { return s.state.Damages() }
