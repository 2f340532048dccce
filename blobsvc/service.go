package blobsvc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/website"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
)

// Config configures a Blob service. Either Folder or InMemory is required.
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
	// HierarchicalNamespace gives all accounts a hierarchical namespace, as Data Lake Storage has it: containers are trees
	// of directories and files. It is fixed once an account has a container.
	HierarchicalNamespace bool
	// CopySources are the hosts, besides this service itself, from which it may fetch the sources of copies:
	// "data.example.com", "*.example.com" for all names below one, with an optional ":port". "*" is every public host.
	CopySources []string
	// Changed, if set, is called for every blob that was created or written - content, properties, metadata, tags or tier
	// - once that is durable, and before the response is sent. It must not block, and must not call the service before it
	// has returned. Several goroutines call it at once: of two writes of one blob, the later one may be reported first. A
	// write that commits while the process dies may not be reported. blob is "" after paths of many blobs changed: a
	// directory of a tree was renamed or restored.
	Changed func(account, container, blob string)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger

	hosted // what the server of this module sets in place of the fields above
}

type (
	hosted = service.Slot[blobhost.Config]
	parts  = service.Slot[blobhost.Parts]
)

// Service is the Blob service. Its methods are safe for concurrent use.
type Service struct {
	parts

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
	hosts      func(account string) bool // nil: the containers of every account are here
	feed       *longpoll.Feed            // recent writes; nil without a board to wait on
	folder     *service.Folder           // nil in a server

	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
	err    error // of the first Close
}

// call is one request to the service.
type call = endpoint.Call

// Close ends the background work and closes the state. Requests must have ended before; calling it twice is fine.
func (s *Service) Close() error {
	s.closed.Do(func() {
		// All work on the state ends before the state is closed.
		s.stop()
		s.state.Membership.Interrupt()
		s.done.Wait()
		s.copies.Close()
		s.sources.Close()
		s.err = errors.Join(s.state.Close(), s.folder.Close())
	})
	return s.err
}

// Ready returns nil if writes are accepted, and otherwise the reason: a sync has failed, and the database must be
// opened again.
func (s *Service) Ready() error { return s.state.Failed() }
