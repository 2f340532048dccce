package tablesvc

import (
	"encoding/json"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/state"
)

// Finding is an invariant that does not hold.
type Finding = state.Finding

// Counts is the number of records that a check has read.
type Counts = state.Counts

// Open opens or creates the file of a Table service, for [Check] and other tools. Options.Buckets is ignored.
func Open(path string, o store.Options) (*store.DB, error) { return state.OpenFile(path, o) }

// Fork prepares the file of a Table service, a copy of a former state, to replace a later state: positions in the logs
// of changes that only the later state had become unknown. A file that does not exist is not created.
func Fork(path string, now time.Time) error { return state.Fork(path, now) }

// Database returns the database, to be pinned with those of the other services.
func (s *Service) Database() *store.DB { return s.state.Database() }

// Describe calls fn with a function that names for people what keys of the file of a Table service belong to.
func Describe(path string, fn func(name func(bucket store.Bucket, key []byte) string)) error {
	return state.Describe(path, fn)
}

// RepairOptions configure [Repair].
type RepairOptions = state.RepairOptions

// Repair puts in order what damage left in the file at path, of a service that is stopped.
func Repair(path string, o RepairOptions) error { return state.Repair(path, o) }

// Buckets are the names of the buckets in the file of a Table service.
func Buckets() []store.Bucket { return state.Buckets() }

// Check reads the whole file of a Table service and reports every invariant that does not hold. It reads one consistent
// state and changes nothing.
func Check(db *store.DB, report func(Finding)) (Counts, error) {
	return state.Check(db, state.Values{
		Properties: properties.Check,
		Policies:   func(value []byte) error { return json.Unmarshal(value, new([]properties.StoredPolicy)) },
		TableName:  func(name string) bool { return entity.TableName(name) || analyticsTable(name) },
	}, report)
}
