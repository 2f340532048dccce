// Package queuehost has what the server of this module gives to the Queue service and takes from it; see package
// service.
package queuehost

import (
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures the Queue service in a server, in place of the fields of queuesvc.Config.
type Config struct {
	// Path is the file of all state: <data>/queues.db. Required. It is created if it does not exist.
	Path string
	// Store are the options of the file, with the log that it follows; see [state.StoreOptions]. The service sets
	// Buckets.
	Store store.Options
	// Shard is the number of the shard that the file belongs to: the ids that it gives differ from those of others.
	Shard int
	// Features are the analytics settings that may be enabled. The zero value refuses all.
	Features properties.Features
	// Common has accounts, clock and log. Accounts are required.
	frontend.Common
}

// Parts are the parts of a running Queue service.
type Parts struct {
	// State has the queues.
	State *state.Store
	// Properties are the service properties of each account.
	Properties *properties.Registry
	// Operations is the operations table without handlers.
	Operations []frontend.Row
}
