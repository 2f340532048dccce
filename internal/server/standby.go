package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
)

const (
	// followEvery is the interval at which a standby looks for what the other server has sent.
	followEvery = time.Second
	// applyWait bounds the wait for reads under way before files are changed: reads that arrive meanwhile wait, too.
	// Then they are served, and the next look tries again. promoteWait is that of a promotion, which must come to an
	// end.
	applyWait, promoteWait = 2 * time.Second, 20 * time.Second
)

// ErrNotStandby: the server is no standby, or not any more.
var ErrNotStandby = errors.New("this server is not a standby")

// startStandby makes the data folder that of a standby, and waits until it has the state of a moment.
func (s *Server) startStandby(ctx context.Context) (err error) {
	if s.config.InMemory || s.config.Cluster != nil || s.config.NATS.URL != "" {
		return errors.New("a standby needs a single server with all of its state in Location")
	}
	s.standby = &standby{Follower: s.config.Standby, promoted: make(chan struct{}), cancel: func() {}}
	if err := s.standby.Open(s.dir); err != nil {
		return err
	}
	if s.standby.nats, err = natsserver.StartContext(ctx, natsserver.Config{Log: s.config.Log}); err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	for {
		ready, err := s.standby.Step(ctx)
		if ready {
			// The files are not in use yet.
			if err := s.standby.Install(); err != nil {
				return err
			}
			continue
		}
		if s.standby.Consistent() {
			return nil
		}
		if s.config.Waiting != nil {
			reason := "the standby waits for the first moment of the archive"
			if err != nil {
				reason += ": " + err.Error()
			}
			s.config.Waiting(reason)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// follow follows the archive until ctx ends or the server was promoted.
func (s *Server) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for s.isStandby() {
		select {
		case <-ctx.Done():
			return
		case <-s.standby.promoted:
			return
		case <-tick.C:
			s.standby.turn.Lock()
			if s.isStandby() {
				_ = s.stepStandby(ctx, applyWait) // Status reports the error
			}
			s.standby.turn.Unlock()
		}
	}
}

// stepStandby reads what there is and changes the files by it. The caller holds turn.
func (s *Server) stepStandby(ctx context.Context, wait time.Duration) error {
	ready, err := s.standby.Step(ctx)
	// After a swap the files are those of a base, which are to be served only once they have reached a moment: so it
	// goes on until there is nothing more.
	for ready {
		if err = s.install(ctx, wait, s.standby.Install); err != nil {
			return err
		}
		ready, err = s.standby.Step(ctx)
	}
	// The files of a base are a moment without a change once the other server has said that nothing follows.
	if s.services.Load() == nil && s.standby.Consistent() {
		err = errors.Join(err, s.install(ctx, wait, func() error { return nil }))
	}
	return err
}

// install calls change while the services are closed, and opens them if the files are consistent then. wait bounds the
// wait for requests under way.
func (s *Server) install(ctx context.Context, wait time.Duration, change func() error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s.exchange.Lock()
	defer s.exchange.Unlock()
	if !s.ready.Load() {
		return errors.New("stopping")
	}
	release := func() {}
	open := s.services.Load()
	if open != nil {
		release = open.board.Release
	}
	if err := s.gate.shut(ctx, release); err != nil {
		return err
	}
	defer s.gate.open()
	s.services.Store(nil)
	if open != nil {
		if err := open.close(); err != nil {
			return fmt.Errorf("close the services: %w", err)
		}
	}
	if err := change(); err != nil {
		return err
	}
	if s.isStandby() && !s.standby.Consistent() {
		return nil // requests are answered 503 until the next step
	}
	return s.open(context.Background())
}

// Promotion is the result of [Server.Promote].
type Promotion struct {
	// Until is the moment up to which the server has every write that the other one has acknowledged. It may have later
	// ones.
	Until time.Time `json:"until"`
	// Seconds is the time that it took.
	Seconds float64 `json:"seconds"`
}

// Promote makes a standby the server, after the other one cannot write any more. It takes as long as the lease of that,
// and can be called again after an error. See [archive.Follower.Take] for force. Errors: ErrNotStandby, ErrBusy, those
// of the follower and of the place.
func (s *Server) Promote(ctx context.Context, force bool) (p Promotion, err error) {
	if !s.isStandby() {
		return p, ErrNotStandby
	}
	began := time.Now()
	// No step of the loop comes in between: what Take has seen is what Finish makes the state.
	s.standby.turn.Lock()
	defer s.standby.turn.Unlock()
	if !s.isStandby() {
		return p, ErrNotStandby
	}
	if err := s.stepStandby(ctx, promoteWait); err != nil && !force {
		return p, err
	}
	wait, err := s.standby.Take(ctx, force)
	if err != nil {
		return p, err
	}
	s.config.Log.Warn("the standby has taken the archive, and waits until the other server has stopped", "wait",
		wait.String())
	if err := s.standby.Wait(ctx, wait); err != nil {
		return p, err
	}
	// The other server may have sent segments until now. The loop ends when this one has created the next one in its
	// place.
	for sealed := false; !sealed; {
		if err := s.stepStandby(ctx, promoteWait); err != nil && !force {
			return p, err
		}
		if sealed, err = s.standby.Seal(ctx); err != nil {
			return p, err
		}
	}
	err = s.install(ctx, promoteWait, func() error {
		if p.Until, err = s.standby.Finish(); err != nil {
			return err
		}
		// While the place does not answer this is a standby still, and another promotion goes on here.
		if a := s.config.Archive; a != nil {
			if err := a.Open(s.dir.Archive(), 1); err != nil {
				return err
			}
		}
		s.standby.ended.Store(true)
		s.standby.nats.Close()
		return nil
	})
	p.Seconds = time.Since(began).Seconds()
	if err == nil {
		close(s.standby.promoted)
		s.config.Log.Warn("the standby was promoted: it is the server now", "until", p.Until.Format(time.RFC3339Nano),
			"seconds", p.Seconds)
	}
	return p, err
}

// Promoted is closed once a standby was promoted; nil for a server that was none.
func (s *Server) Promoted() <-chan struct{} {
	if s.standby == nil {
		return nil
	}
	return s.standby.promoted
}

// StandbyStatus returns what a standby has. Errors: ErrNotStandby.
func (s *Server) StandbyStatus() (status archive.Status, err error) {
	if !s.isStandby() {
		return status, ErrNotStandby
	}
	return s.standby.Status(), nil
}

// ArchiveSent returns how far the archive of the server is; ok is false without one, and on a standby.
func (s *Server) ArchiveSent() (sent archive.Sent, ok bool) {
	a := s.archive()
	if a == nil {
		return sent, false
	}
	return a.Sent()
}

// stopStandby ends following. The files may be closed then.
func (s *Server) stopStandby() {
	if s.standby != nil {
		s.standby.cancel()
		s.standby.running.Wait()
	}
}

// lastSync returns the moment that a standby serves, for [frontend.Common]; nil for another server.
func (s *Server) lastSync() func() time.Time {
	if !s.isStandby() {
		return nil
	}
	return func() time.Time { return s.standby.Status().Until }
}

// archiveOfBlobs returns the archive of the database and the content of blobs, nil without one.
func (s *Server) archiveOfBlobs(of *shard) replica.Archive {
	if a := s.archive(); a != nil {
		return a.Shard(of.Number).Blobs()
	}
	return nil
}
