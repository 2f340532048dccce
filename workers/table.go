package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/tabletrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// TableChange is a change that a table handler receives.
type TableChange = bindings.TableChange

// TableHandler handles one change of an entity.
type TableHandler func(ctx context.Context, c TableChange) error

// WithTable sets the table whose changes trigger the function. Default: the function's name.
func WithTable(name string) TableOption {
	return tableOption(func(s *trigger.Settings) { s.Table = name })
}

// WithExisting(true) makes a table trigger also run for the entities that exist when the app first starts, as updates.
// By default it runs for later changes only.
func WithExisting(existing bool) TableOption {
	return tableOption(func(s *trigger.Settings) { s.Existing = existing })
}

// InOrder makes a table trigger handle every change, of each entity in the order in which they were made, with the
// state of the entity before the change: what an index or a view of the table needs. One instance handles them, the one
// that has the lock; changes of different entities are handled at the same time, at most WithParallelChanges. A change
// that fails is tried again, after the delay of WithRetry, before the next one of its entity; after WithMaxDequeueCount
// attempts it goes to the queue webjobs-tabletrigger-poison. How far all changes were handled is kept in the container
// azure-webjobs-hosts: after a crash what follows is handled again, in order.
//
// Without it, all instances share the changes, and of several changes of an entity only the last may be handled.
func InOrder() TableOption { return tableOption(func(s *trigger.Settings) { s.InOrder = true }) }

// WithParallelChanges sets how many entities' changes an InOrder trigger handles at the same time. Default 16.
func WithParallelChanges(n int) TableOption {
	return tableOption(func(s *trigger.Settings) { s.Parallel = n })
}

// Table registers a handler for changes of a table, from the first start of the app on. It needs Lazuli, which keeps a
// change log of tables on request (docs/extensions.md). On other services the function logs an error and does not run.
//
// One instance, which holds a blob lease, reads the log and puts a message for every change. All instances handle the
// messages, by the rules of queue triggers: retries, maximum dequeue count, poison queue (webjobs-tabletrigger-poison),
// lease renewal, drain. The position in the log is stored in the container azure-webjobs-hosts, so that no change is
// missed while no instance runs.
//
// Every change is handled at least once, unless a later change of the same entity supersedes it before it is handled.
// The handler gets the entity with the ETag of the change. The log covers one week and a million changes. If the app
// was stopped for longer, the handler is called for every entity of the table, as an update; deletions in that time are
// not reported.
func (a *App) Table(name string, h TableHandler, options ...TableOption) *Function {
	f := register(a, name, trigger.TableTrigger, options)
	fail := func(err error) {
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
		}
	}
	if h == nil {
		fail(errors.New("the handler is nil"))
	}
	if f.core.Settings.Table == "" {
		f.core.Settings.Table = name
	}
	fail(tabletrigger.SetQueue(f.core, a.config.HostID))
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return tabletrigger.New(a.environment(f, storage), f.core, h)
	}
	return f
}

// WithEntities sets how a function of [Table] decodes entities, by the options of tables.New: the keys for fields that
// are encrypted, the types of an interface.
func WithEntities(options ...tables.Option) TableOption {
	return tableOption(func(s *trigger.Settings) { s.Entities = append(s.Entities, options...) })
}

// Change is a change of an entity with the entity decoded as package tables stores it.
type Change[T any] struct {
	// Entity is the decoded entity, with its ETag; the zero value after a delete.
	Entity T
	// Before is the entity before the change, for triggers with InOrder; the zero value if Raw.Before is empty.
	Before T
	// Raw is the received change.
	Raw TableChange
}

// Table registers a handler for changes of entities that are a T: a type of package tables, with the same tags, which
// may lack the keys; or tables.Entity. If T has encrypted fields, Start fails unless WithEntities has the key. A change
// whose entity is not a T is moved to the poison queue at once.
func Table[T any](a *App, name string, h func(ctx context.Context, c *Change[T]) error,
	options ...TableOption) *Function {
	var codec *tables.Codec
	f := a.Table(name, func(ctx context.Context, raw TableChange) error {
		c := Change[T]{Raw: raw}
		for entity, state := range map[*T]json.RawMessage{&c.Entity: raw.Entity, &c.Before: raw.Before} {
			if state == nil {
				continue
			}
			err := codec.Unmarshal(ctx, state, entity)
			if errors.Is(err, tables.ErrNoKey) {
				return fmt.Errorf("decrypt the entity: %w", err) // The key may be available later.
			}
			if err != nil {
				return Permanent(fmt.Errorf("the entity is not of type %T: %w", c.Entity, err))
			}
		}
		return h(ctx, &c)
	}, options...)
	var err error
	if codec, err = tables.NewCodec(reflect.TypeFor[T](), f.core.Settings.Table, f.core.Settings.Entities...); err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	return f
}

// HasTableChanges reports whether the service has a change log of tables, which [Table] and [App.FollowTable] need.
// Only Lazuli has one. It returns an error if the table does not exist.
func (s *Storage) HasTableChanges(ctx context.Context, table string) (bool, error) {
	if s.Tables == nil {
		return false, errors.New("workers: the connection string has no table endpoint")
	}
	_, err := tabletrigger.NewFeed(s.Tables, table).After(ctx, "", 0)
	if errors.Is(err, tabletrigger.ErrNoFeed) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("workers: look for the change log of %s: %w", table, err)
	}
	return true, nil
}
