package workerproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// Roles adds built-in roles to an app.
type Roles struct {
	App     *workers.App
	Storage *workers.Storage
	Config  config.Roles
	Log     *slog.Logger
	// creates makes add create what the roles need where it is missing, as create does again.
	Creates  bool
	creators []func(context.Context) error
	// SearchFolder returns where the index of the search-index role is, and SearchTables sets how it reaches its table.
	SearchFolder SearchFolder
	SearchTables func(*searchproc.Config)
	// search is the index of the search-index role; nil without it.
	search *searchproc.Index
	// closers end what outlives the app, in order.
	closers []func(context.Context) error
}

// Add adds the roles called names. What was added is to be closed, also after an error.
func (s *Roles) Add(ctx context.Context, names []string) error {
	if err := s.Config.Conflict(names); err != nil {
		return console.Usage(err)
	}
	for _, name := range names {
		var err error
		switch name {
		case "archive":
			err = s.archive(ctx)
		case "large-entity":
			err = s.largeEntity(ctx)
		case "log-storage":
			err = s.logStorage(ctx)
		case "outbox":
			err = s.outbox(ctx)
		case "schedules":
			s.App.Schedules()
		case "search-index":
			err = s.searchIndex(ctx)
		case "table-index":
			err = s.tableIndex(ctx)
		default:
			err = fmt.Errorf("unknown role %q; the roles are: %s", name, strings.Join(config.RoleNames, ", "))
		}
		if err != nil {
			return fmt.Errorf("role %s: %w", name, err)
		}
	}
	return nil
}

// needs creates what a role needs, if the set does that.
func (s *Roles) needs(ctx context.Context, create func(context.Context) error) error {
	if !s.Creates {
		return nil
	}
	s.creators = append(s.creators, create)
	return create(ctx)
}

// Create creates what the roles need where it is missing.
func (s *Roles) Create(ctx context.Context) error {
	for _, c := range s.creators {
		if err := c(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the resources of the roles. The app must have stopped.
func (s *Roles) Close(ctx context.Context) (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c(ctx))
	}
	return err
}

func (s *Roles) outbox(ctx context.Context) error {
	name := s.App.Outbox().Name() // also that of its queue
	return s.needs(ctx, func(ctx context.Context) error { return s.queue(ctx, name) })
}

func (s *Roles) archive(ctx context.Context) error {
	target, create, err := s.archiveTarget()
	if err != nil {
		return err
	}
	var options []archive.Option
	if s.Config.LargeArchive() {
		options = append(options, archive.WithLargeEntities(s.Config.LargeEntityContainer))
	}
	role, err := archive.New(s.Storage, s.Config.ArchiveFrom, target, options...)
	if err != nil {
		return err
	}
	err = s.needs(ctx, func(ctx context.Context) error {
		_, err := s.Storage.Tables.CreateTable(ctx, s.Config.ArchiveFrom, nil)
		return s.made(err, s.queue(ctx, s.Config.ArchiveQueue), create(ctx))
	})
	if err != nil {
		return err
	}
	role.Register(s.App, "archive", workers.WithQueueName(s.Config.ArchiveQueue))
	return nil
}

// archiveTarget reads archive-to, and returns how to create what it names.
func (s *Roles) archiveTarget() (target archive.Target, create func(context.Context) error, err error) {
	kind, name, _ := strings.Cut(s.Config.ArchiveTo, ":")
	switch kind {
	case "table":
		if s.Config.LargeArchive() {
			target, err = archive.LargeTable(s.Storage, name, s.Config.LargeEntityContainer)
		} else {
			target, err = archive.Table(s.Storage, name)
		}
		create = func(ctx context.Context) error {
			_, err := s.Storage.Tables.CreateTable(ctx, name, nil)
			if err = s.made(err); err == nil && s.Config.LargeArchive() {
				_, err = s.Storage.Blobs.CreateContainer(ctx, s.Config.LargeEntityContainer, nil)
			}
			return err
		}
	case "container":
		target, err = archive.Container(s.Storage, name)
		create = func(ctx context.Context) error { _, err := s.Storage.Blobs.CreateContainer(ctx, name, nil); return err }
	case "folder":
		target = archive.Folder(name)
		create = func(context.Context) error { return disk.MkdirAll(name, 0o700) }
	default:
		err = fmt.Errorf("no entities can be archived to %q", s.Config.ArchiveTo)
	}
	return target, create, err
}

func (s *Roles) largeEntity(ctx context.Context) error {
	c := s.Config
	if err := s.sweep(ctx, c.LargeEntityTable, s.largeEntityFunction()); err != nil {
		return err
	}
	if to, isTable := strings.CutPrefix(c.ArchiveTo, "table:"); isTable && c.LargeArchive() {
		return s.sweep(ctx, to, s.largeEntityFunction()+"-archive")
	}
	return nil
}

// sweep adds a sweeper of a table of large entities.
func (s *Roles) sweep(ctx context.Context, table, function string) error {
	sweeper, err := largeentity.NewSweeper(s.Storage, table, s.Config.LargeEntityContainer,
		largeentity.WithAge(s.Config.LargeEntityAge))
	if err != nil {
		return err
	}
	if err := s.needs(ctx, sweeper.Create); err != nil {
		return err
	}
	s.App.Timer(function, func(ctx context.Context, _ workers.TimerInfo) error {
		done, err := sweeper.Sweep(ctx)
		if done.Removed > 0 || done.Reservations > 0 {
			s.Log.Info("swept large entities", "table", table, "blobs", done.Blobs, "removed", done.Removed, "reservations",
				done.Reservations)
		}
		return err
	}, workers.WithSchedule(s.Config.LargeEntitySchedule))
	return nil
}

// largeEntityFunction names the role's function. Timers with the same name share a lock, so sweepers of different
// tables on one account have different names.
func (s *Roles) largeEntityFunction() string {
	defaults := config.Default().Roles
	if c := s.Config; c.LargeEntityTable != defaults.LargeEntityTable ||
		c.LargeEntityContainer != defaults.LargeEntityContainer {
		return "large-entity-" + c.LargeEntityTable + "-" + c.LargeEntityContainer
	}
	return "large-entity"
}

func (s *Roles) logStorage(ctx context.Context) error {
	c := s.Config
	w, err := logstore.NewWriter(s.Storage, c.LogContainer, logstore.WithFlushBytes(c.LogFlushBytes),
		logstore.WithFlushEvery(c.LogFlushEvery),
		logstore.WithSlot(c.LogSlot), logstore.WithMaxBuffered(max(64<<20, 4*c.LogFlushBytes)), logstore.WithLogger(s.Log))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, w.Close)
	if err := s.needs(ctx, func(ctx context.Context) error { return s.made(s.queue(ctx, c.LogQueue)) }); err != nil {
		return err
	}
	logstore.Register(s.App, "log-storage", w, workers.WithQueueName(c.LogQueue))
	return nil
}

// searchPatience is the time that a start waits for the folder of the index, which the program of a server that was
// killed may have open for a moment.
const searchPatience = 5 * time.Second

// SearchError marks the mistakes among the errors of the start of an index.
func SearchError(err error) error {
	if errors.Is(err, searchproc.ErrProgram) || errors.Is(err, searchproc.ErrSettings) {
		return console.Usage(err)
	}
	return err
}

func (s *Roles) searchIndex(ctx context.Context) error {
	c := s.Config
	if c.SearchFields == "" {
		return console.Usagef("search-index-fields is missing: NAME:TYPE,..., with the types text, keyword, number " +
			"and date")
	}
	folder, remove, err := s.SearchFolder()
	if err != nil {
		return err
	}
	index := searchproc.Config{Table: c.SearchTable, Folder: folder, Fields: c.SearchFields, Log: s.Log,
		Wait: searchPatience, Faults: os.Getenv(fault.EnvVar)}
	s.SearchTables(&index)
	x, err := searchproc.Open(index)
	if err != nil {
		return errors.Join(SearchError(err), remove())
	}
	s.Log.Info("search index opened", "table", c.SearchTable, "folder", folder)
	// From here on the index is closed with the roles; before, this function removes the folder.
	s.search = x
	s.closers = append(s.closers, func(context.Context) error { return errors.Join(x.Close(), remove()) })
	err = s.needs(ctx, func(ctx context.Context) error {
		_, err := s.Storage.Tables.CreateTable(ctx, c.SearchTable, nil)
		if err := s.made(err); err != nil || c.SearchQueue == "" {
			return err
		}
		return s.made(s.queue(ctx, c.SearchQueue))
	})
	if err != nil {
		return err
	}
	// One of the two: an index that is fed by messages must not follow the table as well, and apply each change twice.
	if c.SearchQueue != "" {
		x.RegisterQueue(s.App, "search-index", workers.WithQueueName(c.SearchQueue))
	} else {
		x.Register(s.App, "search-index")
	}
	return nil
}

func (s *Roles) queue(ctx context.Context, name string) error {
	if s.Storage.Queues == nil {
		return errors.New("the connection string has no queue endpoint")
	}
	_, err := s.Storage.Queues.CreateQueue(ctx, name, nil)
	return err
}

// made returns the errors that do not just say that something is there already.
func (s *Roles) made(errs ...error) error {
	for _, err := range errs {
		if err != nil && !ExistsAlready(err) {
			return fmt.Errorf("create the resources of the role: %w", err)
		}
	}
	return nil
}

// ExistsAlready recognises the services' 409 for something that is there: QueueAlreadyExists, TableAlreadyExists,
// ContainerAlreadyExists.
func ExistsAlready(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && strings.HasSuffix(r.ErrorCode, "AlreadyExists")
}

// SearchHandler serves the index of the search-index role; nil without it.
func (s *Roles) SearchHandler() http.Handler {
	if s.search == nil {
		return nil
	}
	return s.search
}
