package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/gctuner"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Start is [StartContext] without a time limit.
func Start(c Config) (*Server, error) { return StartContext(context.Background(), c) }

// StartContext opens the state and serves. It returns when all services answer. After an error nothing is left running.
// ctx bounds the wait for other nodes of a cluster.
func StartContext(ctx context.Context, c Config) (_ *Server, err error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{config: c, started: c.Now(), gate: newGate()}
	s.stopping, s.cancel = context.WithCancel(context.Background())
	if c.Metrics != nil {
		s.metrics = observe.NewMetrics(c.Metrics)
		c.Metrics.MustRegister(damageCollector{s}, &usageCollector{s: s})
	}
	if c.Faults {
		s.faults = faultrule.NewSet(operationNames(), c.Now)
	}
	defer func() {
		if err != nil {
			_ = s.Stop(context.Background())
		}
	}()
	// Listen first, so that a second Lazuli reports the port in use before it waits for anything else.
	if s.listeners, err = listenAll(c); err != nil {
		return nil, err
	}
	if c.InMemory {
		s.dir, err = datadir.OpenTemp("")
	} else {
		s.dir, err = datadir.OpenShards(c.Location, c.Shards)
	}
	if err != nil {
		return nil, err
	}
	if !c.InMemory {
		s.space = diskspace.Open(s.dir.Path(), diskspace.Options{Log: c.Log, Free: c.FreeSpace})
	}
	// The files have times of the system's clock, whatever clock the services have.
	if ahead := s.dir.Ahead(time.Now()); ahead > 0 {
		c.Log.Warn("the data folder was written by a clock that was ahead of this one: what has a time, such as an "+
			"expiry or the end of a retention, may last longer by as much; if this clock is behind, set it before clients write",
			"ahead", ahead.Round(time.Second).String())
	}
	if err := s.checkFolder(); err != nil {
		return nil, err
	}
	// What the folder has, where the configuration leaves that open.
	s.config.Shards = s.dir.Shards()
	if err := s.config.checkShards(); err != nil {
		return nil, fmt.Errorf("data folder %s has %d shards: %w", s.dir.Path(), s.dir.Shards(), err)
	}
	if is, err := archive.IsStandby(s.dir); err != nil || is && c.Standby == nil {
		return nil, cmp.Or(err, errors.New("the data folder belongs to a standby: start it with --standby-of, and "+
			"promote "+
			"it with `lazuli standby promote` to make it the server"))
	}
	if c.Archive == nil && c.Standby == nil && !c.InMemory {
		if err := archive.CheckUnfenced(s.dir.Archive()); err != nil {
			return nil, err
		}
	}
	if c.Tier != nil && (c.InMemory || c.NATS.URL != "" && c.NATSBlobs || c.Standby != nil) {
		return nil, errors.New("a tier of content needs the content of blobs in Location")
	}
	if c.Archive != nil && c.Standby == nil {
		if c.InMemory || c.NATS.URL != "" {
			return nil, errors.New("an archive needs all of the state in Location")
		}
		// That of a node is opened when the node knows its cluster.
		if c.Cluster == nil {
			if err := c.Archive.Open(s.dir.Archive(), s.dir.Shards()); err != nil {
				return nil, err
			}
		}
	}
	serve := func() {
		for _, srv := range s.listeners {
			srv.serve(s.handler(srv.service), c)
		}
	}
	if c.Metrics != nil && s.Replicated() {
		c.Metrics.MustRegister(logMetrics{s})
	}
	if c.Cluster != nil {
		if c.Metrics != nil {
			c.Metrics.MustRegister(clusterMetrics{s, s.dir.Shards()})
		}
		serve() // clients are answered 503 while the node waits for the others
	}
	if c.Standby != nil {
		serve() // 503 until there is something to read
		if err := s.startStandby(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	// A single server has listened since the beginning. The system has kept the connections of its clients until now.
	if c.Cluster == nil && c.Standby == nil {
		serve()
	}
	s.unserve = inproc.Serve(s.Transport().Handlers)
	s.unwatch = gctuner.WhenIdle(s.writeOut)
	s.ready.Store(true)
	if s.isStandby() {
		var follow context.Context
		follow, s.standby.cancel = context.WithCancel(context.Background())
		s.standby.running.Go(func() { s.follow(follow) })
	}
	if s.Replicated() {
		follow, cancel := context.WithCancel(context.Background())
		s.unfollow = cancel
		s.following.Go(func() { s.keepFollowing(follow) })
		if s.Clustered() {
			s.following.Go(func() { s.followMoves(follow) })
		}
	}
	return s, nil
}

// Stop waits for requests under way until ctx is done, then ends them, and closes the state. Another call returns the
// first call's error.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		s.ready.Store(false)
		s.cancel()
		if s.unwatch != nil {
			s.unwatch()
		}
		s.moments.Lock() // waits for the moments; none begins after it
		//lint:ignore SA2001 nothing is to be done meanwhile
		s.moments.Unlock()
		// The exchange is not locked yet: rejoin holds that lock, and this waits for it.
		if s.unfollow != nil {
			s.unfollow()
			s.following.Wait()
		}
		s.stopStandby()
		s.exchange.Lock()
		defer s.exchange.Unlock()
		open := s.services.Load()
		if open != nil {
			open.board.Close() // requests that wait for changes would delay the stop
		}
		var wait sync.WaitGroup
		wait.Go(func() { s.listeners.shutdownAll(ctx) })
		if s.unserve != nil {
			wait.Go(func() { s.unserve(ctx) })
		}
		wait.Wait()
		if open != nil {
			s.err = open.close()
		}
		if s.isStandby() && s.standby.nats != nil {
			s.standby.nats.Close()
		}
		if s.config.Archive != nil {
			s.err = errors.Join(s.err, s.config.Archive.Close())
		}
		s.space.Close()
		if s.dir != nil {
			s.err = errors.Join(s.err, s.dir.Close())
		}
	})
	return s.err
}

// ClockChanged wakes the requests that wait for changes, after Config.Now has jumped: messages may have become visible.
func (s *Server) ClockChanged() {
	if open := s.services.Load(); open != nil {
		open.board.TouchAll()
		open.wakeEvents("")
	}
}

// Ready returns nil while the server serves everything, otherwise the reason why it does not.
func (s *Server) Ready() error {
	switch {
	case !s.ready.Load():
		return errors.New("stopping")
	case s.services.Load() == nil:
		return errNotOpen
	case s.Clustered() && errors.Is(s.services.Load().nats.Failed(), natsserver.ErrNoRoom):
		return natsserver.ErrNoRoom
	case s.space.Full():
		return ErrDiskFull
	}
	if a := s.archive(); a != nil {
		if err := a.Allow(); err != nil {
			return err
		}
	}
	if err := s.space.Failing(); err != nil {
		return fmt.Errorf("the disk of the data folder refuses writes: %w", err)
	}
	open := s.services.Load()
	problems := []error{open.nats.Healthy()}
	for _, of := range open.list() {
		problems = append(problems, of.tables.Ready(), of.blobs.Ready(), of.queues.Ready())
	}
	return errors.Join(append(problems, open.logsReady())...)
}

// writeOut writes to the databases' files what is in memory and in their logs, when the process has become idle. It
// reports whether that made memory free. Errors are left to the next writes, which meet them, too.
func (s *Server) writeOut() (freed bool) {
	open := s.services.Load()
	if open == nil || s.isStandby() {
		return false
	}
	for _, of := range open.list() {
		for _, db := range []*store.DB{of.tables.State.Database(), of.queues.State.Database(), of.blobs.State.Database()} {
			wrote, err := db.WriteOut()
			if err != nil {
				s.config.Log.Debug("a memtable cannot be written to its file; trying again with the next writes", "err", err)
			}
			freed = freed || wrote
		}
	}
	return freed
}
