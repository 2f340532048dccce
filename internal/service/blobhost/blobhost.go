// Package blobhost has what the server of this module gives to the Blob service and takes from it; see package service.
package blobhost

import (
	"context"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Config configures the Blob service in a server, in place of the fields of blobsvc.Config.
type Config struct {
	// Path is the database with everything but content; Extents is the folder of the content. They are created if
	// absent, in a folder that exists. Required.
	Path, Extents string
	// Shard is the number of the shard that the files belong to: the numbers that they draw differ from those of others.
	Shard int
	// Hosts reports whether the containers of an account are in these files; nil is every account. Shards serves the
	// containers of all accounts then: copies read their sources there.
	Hosts  func(account string) bool
	Shards http.Handler
	// Relaxed acknowledges writes before they are synced. Ephemeral keeps nothing past the process.
	Relaxed, Ephemeral bool
	// Archive gets the log of the database, and the content; nil sends them nowhere.
	Archive replica.Archive
	// Tier has content that is not in Extents any more; with nil all is.
	Tier *tier.Options
	// ReadOnly opens the files of a standby, and runs nothing that writes.
	ReadOnly bool
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
	// LogEvents records the events of accounts with event subscriptions, see [eventlog.Log]. EventLogged, if set,
	// is called with the account once the write that caused an event is durable, and before the response is sent. It must
	// not block.
	LogEvents   bool
	EventLogged func(account string)
	// Subscribed, if set, is called on a node of a cluster after any node has changed an event subscription. It must not
	// block.
	Subscribed func()
	// AccountChanged, if set, is called on a node of a cluster after any node has added, changed or removed an account in
	// the database; value is nil if it was removed. It must not block.
	AccountChanged func(name string, value []byte)
	// ScopeKeys is the file of the keys of the accounts' encryption scopes, which is created when there is one. Without
	// it, and with Ephemeral, keys last as long as the process.
	ScopeKeys string
	// CleanEvery is the pause between two rounds of background work: removing what was deleted, expiring uncommitted
	// blocks, compacting extents. 0 is a second; negative runs no background work at all, for tests that call
	// [Parts.Clean].
	CleanEvery time.Duration
}

// Parts are the parts of a running Blob service.
type Parts struct {
	// State has the containers and blobs, and the log of the events of all services.
	State *state.Store
	// Properties are the service properties of each account.
	Properties *properties.Registry
	// Operations is the operations table without handlers, and LakeOperations that of the dfs endpoint. In the latter,
	// Comp is the parameter action, and comp where the REST reference has that; Restype is the parameter resource.
	Operations, LakeOperations []frontend.Row
	// DeclareScopes creates the keys of an account's encryption scopes that have none, after the account was added or its
	// settings were changed.
	DeclareScopes func(account string) error
	// Website is the account of the static website with a host name; "" if there is no website.
	Website func(host string) string
	// EndCopies ends the copies under way, which stay pending: the files that they read from are closed next.
	EndCopies func()
	// Clean does all background work but compaction now, for tests.
	Clean func(context.Context) error
}
