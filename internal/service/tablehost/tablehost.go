// Package tablehost has what the server of this module gives to the Table service and takes from it; see package
// service.
package tablehost

import (
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures the Table service in a server, in place of the fields of tablesvc.Config.
type Config struct {
	// Path is the file of all state: <data>/tables.db. Required. It is created if it does not exist.
	Path string
	// Store are the options of the file, such as durability. The service sets Buckets.
	Store store.Options
	// Shard is the number of the shard that the file belongs to: the ids that it gives differ from those of others.
	Shard int
	// Features are the service properties, beside CORS rules, that the program honours: writers of logs and metrics read
	// them with [Parts.Properties]. Set Table Service Properties answers 501 to any other.
	Features properties.Features
	// Common are accounts, clock and log.
	frontend.Common
}

// Parts are the parts of a running Table service.
type Parts struct {
	// State has the tables.
	State *state.Store
	// Properties are the service properties of each account.
	Properties *properties.Registry
	// Operations is the operations table without handlers.
	Operations []frontend.Row
}
