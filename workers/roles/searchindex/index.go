package searchindex

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Config describes an index.
type Config struct {
	// Storage is the account of the table.
	Storage *workers.Storage
	// Table is the table that is indexed.
	Table string
	// Folder has the index. It is created if it does not exist. One process can have it open.
	Folder string
	// Fields are the properties that are indexed. If they differ from those of the stored index, it is rebuilt.
	Fields []Field
	// Log receives what an operator should know. nil discards it.
	Log *slog.Logger
}

// Index is a full-text index of a table. Its methods are safe for concurrent use.
type Index struct {
	folder *folder
	table  string
	fields []Field
	source *tables.Table[tables.Entity] // nil if the index was opened by OpenFolder
	log    *slog.Logger

	write sync.Mutex // held while the index is changed

	// mu guards what follows. It is changed while write is held, too, so that either lock allows reading it.
	mu                sync.RWMutex
	state             state
	serving, building *generation // nil: none
	closed            bool

	pending   pendingKeys
	discarded sync.WaitGroup // removals of generations
}

// ErrClosed means that the index was closed.
var ErrClosed = errors.New("searchindex: the index is closed")

// Open opens the index of a folder, or creates it. It stays empty until a role fills it: see [Index.Register],
// [Index.RegisterQueue] and [Index.Build].
func Open(c Config) (*Index, error) {
	if c.Storage == nil || c.Storage.Tables == nil {
		return nil, errors.New("searchindex: the connection string has no table endpoint")
	}
	if c.Folder == "" {
		return nil, errors.New("searchindex: the folder is missing")
	}
	if err := validateFields(c.Fields); err != nil {
		return nil, err
	}
	source, err := tables.New[tables.Entity](c.Storage.Tables, c.Table)
	if err != nil {
		return nil, fmt.Errorf("searchindex: %w", err)
	}
	x := &Index{table: c.Table, fields: c.Fields, source: source, log: c.Log}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	if x.folder, err = openFolder(c.Folder); err != nil {
		return nil, err
	}
	if err := x.load(); err != nil {
		return nil, errors.Join(err, x.folder.close())
	}
	return x, nil
}

// OpenFolder opens a stored index with its own table and fields. storage is the account of the table; nil allows
// searches alone. It returns [ErrNoIndex] if the folder has no index.
func OpenFolder(path string, storage *workers.Storage) (*Index, error) {
	f := &folder{path: path}
	s, err := f.read()
	// Before the lock, which creates the folder: a path that was misspelled must not leave a folder behind.
	if err == nil && s.Serving == "" && s.Building == "" {
		err = fmt.Errorf("%w: %s", ErrNoIndex, path)
	}
	if err != nil {
		return nil, err
	}
	if storage != nil {
		return Open(Config{Storage: storage, Table: s.Table, Folder: path, Fields: s.Fields})
	}
	if f, err = openFolder(path); err != nil {
		return nil, err
	}
	x := &Index{folder: f, table: s.Table, fields: s.Fields, log: slog.New(slog.DiscardHandler)}
	if err := x.load(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return x, nil
}

// load opens the generations that fit the configuration, and removes the others.
func (x *Index) load() (err error) {
	if x.state, err = x.folder.read(); err != nil {
		return err
	}
	if !x.state.matches(x.table, x.fields) {
		if x.state.Version != 0 {
			x.log.Info("the index is rebuilt, since its table or its fields have changed", "table", x.table, "folder",
				x.folder.path)
		}
		x.state = state{Version: formatVersion, Table: x.table, Fields: x.fields}
	}
	// One that cannot be opened is dropped from the state, and the follower then finds no progress and reads the table
	// again.
	x.serving, x.state.Serving = x.open(x.state.Serving)
	x.building, x.state.Building = x.open(x.state.Building)
	err = x.folder.write(x.state)
	if err == nil {
		// Only after the state is written: a generation that the stored state names must exist.
		err = x.folder.clean(x.state)
	}
	if err == nil {
		// A process may have stopped between the last page of the table and the switch.
		err = x.promote()
	}
	if err != nil {
		return errors.Join(err, x.serving.close(), x.building.close())
	}
	return nil
}

// open opens a generation; nil if it does not exist or cannot be opened, since it can be built again.
func (x *Index) open(id string) (*generation, string) {
	if id == "" {
		return nil, ""
	}
	g, err := x.folder.openGeneration(id)
	if err != nil {
		x.log.Warn("the stored index cannot be opened; it is rebuilt", "folder", x.folder.path, "err", err)
		return nil, ""
	}
	return g, id
}

// Close waits for running searches and closes the index. The functions that were registered must have stopped.
func (x *Index) Close() error {
	x.write.Lock()
	defer x.write.Unlock()
	x.mu.Lock()
	serving, building, closed := x.serving, x.building, x.closed
	// New searches end with ErrClosed from here on; those that run hold their generation, and close waits for them.
	x.serving, x.building, x.closed = nil, nil, true
	x.mu.Unlock()
	if closed {
		return nil
	}
	x.discarded.Wait()
	return errors.Join(serving.close(), building.close(), x.folder.close())
}

// Table returns the name of the indexed table.
func (x *Index) Table() string { return x.table }

// Fields returns the fields of the index.
func (x *Index) Fields() []Field { return x.fields }

// use calls read with the generation for searches. complete is false while the first one is being built. g is nil
// before the first one.
func (x *Index) use(read func(g *generation, complete bool) error) error {
	x.mu.RLock()
	g, complete, closed := x.serving, true, x.closed
	if g == nil {
		g, complete = x.building, false
	}
	if g != nil {
		// While mu is held: a generation that is replaced can be closed only when all that were given it have ended.
		g.users.Add(1)
		defer g.users.Done()
	}
	x.mu.RUnlock()
	if closed {
		return ErrClosed
	}
	return read(g, complete)
}

// replace writes the state of the folder and then uses these generations. x.write is held.
func (x *Index) replace(s state, serving, building *generation) error {
	if err := x.folder.write(s); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state, x.serving, x.building = s, serving, building
	return nil
}

// promote makes the generation that is being built the serving one, if it has read the whole table. x.write is held.
func (x *Index) promote() error {
	if x.building == nil {
		return nil
	}
	p, err := x.building.progress()
	if err != nil || p.Reading {
		return err
	}
	if err := fault.Point(searchapi.BeforeSwitch); err != nil {
		return err
	}
	// The switch is one write of the state file. Before it the old generation serves after a crash, after it the new one.
	old, s := x.serving, x.state
	s.Serving, s.Building = s.Building, ""
	if err := x.replace(s, x.building, nil); err != nil {
		return err
	}
	if err := fault.Point(searchapi.AfterSwitch); err != nil {
		return err
	}
	x.discard(old)
	return nil
}

// discard removes a generation that is no longer in use once its searches have ended. It does not wait for them, since
// they may wait for x.write.
func (x *Index) discard(g *generation) {
	if g == nil {
		return
	}
	// If the removal fails, clean tries again: the state no longer names the generation.
	x.discarded.Go(func() {
		if err := g.remove(x.folder); err != nil {
			x.log.Warn("a replaced index was not removed; the next start removes it", "folder", x.folder.path, "err", err)
		}
	})
}

// current returns the generation that changes go to: the one that is being built, or else the serving one, or nil.
// x.write is held.
func (x *Index) current() *generation {
	if x.building != nil {
		return x.building
	}
	return x.serving
}

// Rebuild makes the role read the whole table again, into a new index that then replaces the current one. It returns at
// once; the role begins with the next change, or within half a minute.
func (x *Index) Rebuild() error {
	x.write.Lock()
	defer x.write.Unlock()
	if x.closed {
		return ErrClosed
	}
	s := x.state
	s.Rebuild = true
	return x.replace(s, x.serving, x.building)
}
