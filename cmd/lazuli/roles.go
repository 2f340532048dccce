package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/server/config"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// roleSet adds built-in roles to an app.
type roleSet struct {
	app     *workers.App
	storage *workers.Storage
	config  config.Roles
	log     *slog.Logger
	// creates makes add create what the roles need where it is missing, as create does again.
	creates  bool
	creators []func(context.Context) error
	// searchFolder returns where the index of the search-index role is, and searchTables sets how it reaches its table.
	searchFolder searchFolder
	searchTables func(*searchproc.Config)
	// search is the index of the search-index role; nil without it.
	search *searchproc.Index
	// closers end what outlives the app, in order.
	closers []func(context.Context) error
}

// add adds the roles called names. What was added is to be closed, also after an error.
func (s *roleSet) add(ctx context.Context, names []string) error {
	if err := s.config.Conflict(names); err != nil {
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
func (s *roleSet) needs(ctx context.Context, create func(context.Context) error) error {
	if !s.creates {
		return nil
	}
	s.creators = append(s.creators, create)
	return create(ctx)
}

// create creates what the roles need where it is missing.
func (s *roleSet) create(ctx context.Context) error {
	for _, c := range s.creators {
		if err := c(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close releases the resources of the roles. The app must have stopped.
func (s *roleSet) close(ctx context.Context) (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c(ctx))
	}
	return err
}

func (s *roleSet) archive(ctx context.Context) error {
	target, create, err := s.archiveTarget()
	if err != nil {
		return err
	}
	var options []archive.Option
	if s.config.LargeArchive() {
		options = append(options, archive.WithLargeEntities(s.config.LargeEntityContainer))
	}
	role, err := archive.New(s.storage, s.config.ArchiveFrom, target, options...)
	if err != nil {
		return err
	}
	err = s.needs(ctx, func(ctx context.Context) error {
		_, err := s.storage.Tables.CreateTable(ctx, s.config.ArchiveFrom, nil)
		return s.made(err, s.queue(ctx, s.config.ArchiveQueue), create(ctx))
	})
	if err != nil {
		return err
	}
	role.Register(s.app, "archive", workers.WithQueueName(s.config.ArchiveQueue))
	return nil
}

// archiveTarget reads archive-to, and returns how to create what it names.
func (s *roleSet) archiveTarget() (target archive.Target, create func(context.Context) error, err error) {
	kind, name, _ := strings.Cut(s.config.ArchiveTo, ":")
	switch kind {
	case "table":
		if s.config.LargeArchive() {
			target, err = archive.LargeTable(s.storage, name, s.config.LargeEntityContainer)
		} else {
			target, err = archive.Table(s.storage, name)
		}
		create = func(ctx context.Context) error {
			_, err := s.storage.Tables.CreateTable(ctx, name, nil)
			if err = s.made(err); err == nil && s.config.LargeArchive() {
				_, err = s.storage.Blobs.CreateContainer(ctx, s.config.LargeEntityContainer, nil)
			}
			return err
		}
	case "container":
		target, err = archive.Container(s.storage, name)
		create = func(ctx context.Context) error { _, err := s.storage.Blobs.CreateContainer(ctx, name, nil); return err }
	case "folder":
		target = archive.Folder(name)
		create = func(context.Context) error { return disk.MkdirAll(name, 0o700) }
	default:
		err = fmt.Errorf("no entities can be archived to %q", s.config.ArchiveTo)
	}
	return target, create, err
}

func (s *roleSet) largeEntity(ctx context.Context) error {
	c := s.config
	if err := s.sweep(ctx, c.LargeEntityTable, s.largeEntityFunction()); err != nil {
		return err
	}
	if to, isTable := strings.CutPrefix(c.ArchiveTo, "table:"); isTable && c.LargeArchive() {
		return s.sweep(ctx, to, s.largeEntityFunction()+"-archive")
	}
	return nil
}

// sweep adds a sweeper of a table of large entities.
func (s *roleSet) sweep(ctx context.Context, table, function string) error {
	sweeper, err := largeentity.NewSweeper(s.storage, table, s.config.LargeEntityContainer,
		largeentity.WithAge(s.config.LargeEntityAge))
	if err != nil {
		return err
	}
	if err := s.needs(ctx, sweeper.Create); err != nil {
		return err
	}
	s.app.Timer(function, func(ctx context.Context, _ workers.TimerInfo) error {
		done, err := sweeper.Sweep(ctx)
		if done.Removed > 0 || done.Reservations > 0 {
			s.log.Info("swept large entities", "table", table, "blobs", done.Blobs, "removed", done.Removed, "reservations",
				done.Reservations)
		}
		return err
	}, workers.WithSchedule(s.config.LargeEntitySchedule))
	return nil
}

// largeEntityFunction names the role's function. Timers with the same name share a lock, so sweepers of different
// tables on one account have different names.
func (s *roleSet) largeEntityFunction() string {
	defaults := config.Default().Roles
	if c := s.config; c.LargeEntityTable != defaults.LargeEntityTable ||
		c.LargeEntityContainer != defaults.LargeEntityContainer {
		return "large-entity-" + c.LargeEntityTable + "-" + c.LargeEntityContainer
	}
	return "large-entity"
}

func (s *roleSet) logStorage(ctx context.Context) error {
	c := s.config
	w, err := logstore.NewWriter(s.storage, c.LogContainer, logstore.WithFlushBytes(c.LogFlushBytes),
		logstore.WithFlushEvery(c.LogFlushEvery),
		logstore.WithSlot(c.LogSlot), logstore.WithMaxBuffered(max(64<<20, 4*c.LogFlushBytes)), logstore.WithLogger(s.log))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, w.Close)
	if err := s.needs(ctx, func(ctx context.Context) error { return s.made(s.queue(ctx, c.LogQueue)) }); err != nil {
		return err
	}
	logstore.Register(s.app, "log-storage", w, workers.WithQueueName(c.LogQueue))
	return nil
}

// searchPatience is the time that a start waits for the folder of the index, which the program of a server that was
// killed may have open for a moment.
const searchPatience = 5 * time.Second

// searchError marks the mistakes among the errors of the start of an index.
func searchError(err error) error {
	if errors.Is(err, searchproc.ErrProgram) || errors.Is(err, searchproc.ErrSettings) {
		return console.Usage(err)
	}
	return err
}

func (s *roleSet) searchIndex(ctx context.Context) error {
	c := s.config
	if c.SearchFields == "" {
		return console.Usagef("search-index-fields is missing: NAME:TYPE,..., with the types text, keyword, number " +
			"and date")
	}
	folder, remove, err := s.searchFolder()
	if err != nil {
		return err
	}
	index := searchproc.Config{Table: c.SearchTable, Folder: folder, Fields: c.SearchFields, Log: s.log,
		Wait: searchPatience, Faults: os.Getenv(fault.EnvVar)}
	s.searchTables(&index)
	x, err := searchproc.Open(index)
	if err != nil {
		return errors.Join(searchError(err), remove())
	}
	s.log.Info("search index opened", "table", c.SearchTable, "folder", folder)
	s.search = x
	s.closers = append(s.closers, func(context.Context) error { return errors.Join(x.Close(), remove()) })
	err = s.needs(ctx, func(ctx context.Context) error {
		_, err := s.storage.Tables.CreateTable(ctx, c.SearchTable, nil)
		if err := s.made(err); err != nil || c.SearchQueue == "" {
			return err
		}
		return s.made(s.queue(ctx, c.SearchQueue))
	})
	if err != nil {
		return err
	}
	if c.SearchQueue != "" {
		x.RegisterQueue(s.app, "search-index", workers.WithQueueName(c.SearchQueue))
	} else {
		x.Register(s.app, "search-index")
	}
	return nil
}

func (s *roleSet) queue(ctx context.Context, name string) error {
	if s.storage.Queues == nil {
		return errors.New("the connection string has no queue endpoint")
	}
	_, err := s.storage.Queues.CreateQueue(ctx, name, nil)
	return err
}

// made returns the errors that do not just say that something is there already.
func (s *roleSet) made(errs ...error) error {
	for _, err := range errs {
		if err != nil && !existsAlready(err) {
			return fmt.Errorf("create the resources of the role: %w", err)
		}
	}
	return nil
}

// existsAlready recognises the services' 409 for something that is there: QueueAlreadyExists, TableAlreadyExists,
// ContainerAlreadyExists.
func existsAlready(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && strings.HasSuffix(r.ErrorCode, "AlreadyExists")
}
