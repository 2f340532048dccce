package blobsvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/changefeed"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/lakesvc"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/website"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// New opens the state and starts the service. Call Close after the last request. It fails if another process uses the
// folder, and if files that the folder had are missing or damaged; `lazuli fsck` says which.
func New(c Config) (*Service, error) {
	if host := service.Get(&c.hosted); host != nil {
		return open(*host)
	}
	sources := egress.Policy{Hosts: c.CopySources}
	if err := sources.Validate(); err != nil {
		return nil, fmt.Errorf("blobsvc: Config.CopySources: %w", err)
	}
	folder, common, err := service.Alone{Folder: c.Folder, InMemory: c.InMemory, Accounts: c.Accounts,
		Settings: accountprops.Blob{Hierarchical: c.HierarchicalNamespace}, Now: c.Now, Log: c.Log}.Open()
	if err != nil {
		return nil, fmt.Errorf("blobsvc: %w", err)
	}
	s, err := open(blobhost.Config{Common: common, Path: folder.Blobs(), Extents: folder.Extents(),
		ScopeKeys: folder.EncryptionScopes(), Relaxed: c.Relaxed, Ephemeral: c.InMemory, Egress: sources,
		Changed: c.Changed})
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
func open(c blobhost.Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Service{wake: make(chan struct{}, 1), accounts: c.Accounts, egress: &c.Egress, now: c.Now,
		log: c.Log, changed: c.Changed, common: c.Common, hosts: c.Hosts}
	if c.Board != nil {
		s.feed = longpoll.NewFeed(c.Board)
	}
	if err := s.openState(&c); err != nil {
		return nil, err
	}
	s.sources = copysource.NewFetcher(&c.Egress, c.CopyTimeout, c.Log)
	s.sources.Shards = c.Shards
	s.copies = copysource.NewCopier(
		copysource.CopierConfig{State: s.state, Scopes: s.scopes, Sources: s.sources, Pause: c.CopyPause, Now: c.Now,
			Log: c.Log, Errors: endpoint.AzureError})
	s.website = &website.Handler{Blobs: s.state.Blobs, Properties: s.properties, Errors: endpoint.AzureError,
		Common: c.Common}
	s.background = &background{state: s.state, copies: s.copies, scopes: s.scopes,
		feeds: &changefeed.Writer{State: s.state}, accounts: s.ownAccounts,
		served: func(account string) bool { return s.accounts.Get(account) != nil }, now: c.Now, log: c.Log, wake: s.wake}
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
	if !s.state.Membership.Replicated() && !c.ReadOnly {
		if err := s.copies.Resume(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	service.Put(&s.parts, &blobhost.Parts{State: s.state, Properties: s.properties, Operations: frontend.Rows(operations),
		LakeOperations: lakesvc.Operations(), Clean: s.clean, DeclareScopes: s.scopes.Declare,
		Website: s.website.Account, EndCopies: s.copies.Close})
	if c.CleanEvery >= 0 && !c.ReadOnly {
		s.done.Go(func() { s.background.run(ctx, cmp.Or(c.CleanEvery, time.Second)) })
	}
	return s, nil
}

// openState opens the keys of encryption scopes and the state, and loads the service properties.
func (s *Service) openState(c *blobhost.Config) (err error) {
	keys := c.ScopeKeys
	// A cluster keeps the keys in its database, and nothing ephemeral is kept in a file.
	if c.Ephemeral || c.Cluster != nil {
		keys = ""
	}
	declared := func(account string) []string { return s.accounts.Blob(account).Scopes }
	s.scopes, err = encryption.OpenScopes(keys, declared)
	if err == nil && c.Cluster == nil && !c.ReadOnly {
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
		Cluster: c.Cluster, Archive: c.Archive, Tier: c.Tier, ReadOnly: c.ReadOnly,
		FirstID: shardmap.First(c.Shard)})
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

// ownAccounts returns the accounts whose containers are in this shard: all accounts of a server without shards.
func (s *Service) ownAccounts() []string {
	names := s.accounts.Names()
	if s.hosts == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !s.hosts(name) })
}

// checkNamespaces fails if the namespace of an account is not of the kind that its containers have.
func (s *Service) checkNamespaces() error {
	if s.state.Membership.Replicated() {
		return nil // which may not be readable yet; the first container that would differ is refused
	}
	for _, account := range s.ownAccounts() {
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
	for _, account := range s.ownAccounts() {
		err = errors.Join(err, s.scopes.Declare(account))
	}
	return err
}

// follower returns what follows the changes of other nodes.
func (s *Service) follower(c *blobhost.Config) replica.Follower {
	return replica.Follower{
		Properties: s.properties.Changed,
		Account:    c.AccountChanged,
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

// blobChanged reports a blob that was created or written, see Config.Changed.
func (s *Service) blobChanged(account, container, blob string) {
	if s.changed != nil {
		s.changed(account, container, blob)
	}
	if s.feed != nil && !s.state.Membership.Replicated() { // otherwise follower does
		s.feed.Add(longpoll.Key(account, container), blob)
	}
}
