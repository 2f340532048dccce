package queuesvc

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Counts are totals of the queues that [Check] has read.
type Counts = state.Counts

// LogName is the name of the log of a Queue service.
const LogName = state.LogName

// LogConfig is the configuration of a log on a NATS server; see package replog.
func LogConfig(n *natsserver.Server, name string, log *slog.Logger) replog.Config {
	return state.LogConfig(n, name, log)
}

// StoreOptions opens the log of the queues on a NATS server, and returns the options of a store that follows it, for
// [Config].
func StoreOptions(ctx context.Context, n *natsserver.Server, log *slog.Logger) (store.Options, error) {
	return state.StoreOptions(ctx, n, state.LogConfig(n, LogName, log))
}

// Settle opens and closes the file of a stopped service, so that the file has everything that was in the log. n is an
// embedded server that no other process uses.
func Settle(ctx context.Context, path string, n *natsserver.Server, log *slog.Logger) error {
	o, err := StoreOptions(ctx, n, log)
	if err != nil {
		return err
	}
	s, err := state.Open(path, state.Options{Store: o, Log: log})
	if err != nil {
		return err
	}
	return s.Close()
}

// Buckets are the names of the buckets in the file of a Queue service.
func Buckets() []store.Bucket { return state.Buckets() }

// OpenFolder opens the file of a Queue service that is stopped, and reads the files of the log in the folder queues for
// what the file lacks. It changes nothing. damaged is called for each damage of the log's files, behind which nothing
// is read.
func OpenFolder(path, queues string, damaged func(jetstreamfiles.Damage)) (*store.DB, error) {
	return state.OpenFolder(path, queues, damaged)
}

// ReadLog calls take with each message of the log in the folder queues of a server, which may be running. See
// [jetstreamfiles.Read].
func ReadLog(queues string, take func(jetstreamfiles.Record) error) ([]jetstreamfiles.Damage, error) {
	return state.ReadLog(queues, take)
}

// Check reads the whole file of a Queue service and reports each inconsistency as an error that names the queue. It
// reads one state and changes nothing.
func Check(db *store.DB, report func(error)) (Counts, error) {
	return state.Check(db, values, report)
}

var values = state.Values{
	Properties: properties.Check,
	Policies:   func(value []byte) error { return json.Unmarshal(value, new([]properties.StoredPolicy)) },
}

// Repair puts the records in order that damage has left in the file of a service that is stopped, which needs no log.
// note is called for each change; lost means that something could not be kept.
func Repair(path string, note func(what string, lost bool)) error {
	return state.Repair(path, values, note)
}

// Describe calls fn with a function that names for people what keys of buckets in the file at path belong to.
func Describe(path string, fn func(name func(bucket store.Bucket, key []byte) string)) error {
	return state.Describe(path, fn)
}
