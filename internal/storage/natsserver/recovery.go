package natsserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
)

// ErrStorage means that the embedded server currently cannot write its files. It wraps the cause.
var ErrStorage = errors.New("queues cannot be written to disk")

// JetStream stops using a stream permanently once a write to it has failed, and after a failed sync the content of the disk is unknown. So after
// such a failure the Server refuses all requests, waits until the disk accepts writes again, and then restarts the embedded server: it reads its
// files again, and clients reconnect.
const (
	probeSize  = 1 << 20
	probePause = 200 * time.Millisecond
	probeMost  = 5 * time.Second
)

// recovery is the state of [Server.recoverFrom].
type recovery struct {
	mu      sync.Mutex // guards the rest
	failed  error
	cancel  context.CancelFunc
	done    chan struct{}
	stopped bool
	notify  []func()
}

func (r *recovery) stop() {
	r.mu.Lock()
	r.stopped = true
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// Failed returns an [ErrStorage] with the reason while the server cannot write its files, and nil otherwise. The server recovers by itself.
func (s *Server) Failed() error {
	s.recover.mu.Lock()
	defer s.recover.mu.Unlock()
	return s.recover.failed
}

// OnRecovery registers a function that is called when the server has recovered from a failure, and before [Server.Failed] says so. The server has read its files again then:
// records that JetStream had acknowledged but not synced may be missing.
func (s *Server) OnRecovery(f func()) {
	s.recover.mu.Lock()
	defer s.recover.mu.Unlock()
	s.recover.notify = append(s.recover.notify, f)
}

// Suspect is called when the server did not answer a request on a stream for a while. It checks whether writes to the stream have failed, and
// returns the failure: an [ErrStorage], or an [ErrNoMajority] on a node of a cluster.
func (s *Server) Suspect(stream string) error {
	if err := s.Failed(); err != nil {
		return err
	}
	if s.node != nil {
		return s.node.noMajority()
	}
	if s.streams == "" {
		return nil
	}
	e := s.running()
	if e == nil {
		return nil
	}
	if !e.JetStreamEnabled() {
		s.fail(errors.New("JetStream has stopped"))
		return s.Failed()
	}
	h := e.Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream})
	if h.StatusCode != 404 && h.Error != "" {
		s.fail(errors.New(h.Error))
	}
	return s.Failed()
}

// Refused is called with JetStream's refusal of an administrative request, such as the creation of a stream, which may come from the disk. It
// tries to write to the disk, and returns an [ErrStorage] if that fails, otherwise cause.
func (s *Server) Refused(cause error) error {
	if err := s.Failed(); err != nil {
		return err
	}
	if s.streams == "" || s.node != nil {
		return cause
	}
	if err := s.probe(); err != nil {
		s.fail(fmt.Errorf("%w, after JetStream's %w", err, cause))
		return s.Failed()
	}
	return cause
}

// fail records a failure and starts the recovery.
func (s *Server) fail(cause error) {
	r := &s.recover
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil || r.stopped {
		return
	}
	if strings.Contains(cause.Error(), syscall.ENOSPC.Error()) && !diskspace.IsFull(cause) { // JetStream only returns the text
		cause = fmt.Errorf("%w: %w", syscall.ENOSPC, cause)
	}
	r.failed = fmt.Errorf("%w: %w", ErrStorage, cause)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	s.config.Log.Error("queues cannot be written; waiting until the disk accepts writes", "err", cause)
	go func() {
		defer close(r.done)
		s.recoverFrom(ctx)
	}()
}

// recoverFrom waits until the disk accepts writes and restarts the embedded server.
func (s *Server) recoverFrom(ctx context.Context) {
	began := time.Now()
	for pause := probePause; ; pause = min(2*pause, probeMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := s.probe(); err != nil {
			s.config.Log.Debug("the disk of the queues does not accept writes", "err", err)
			continue
		}
		if err := s.restart(ctx); err != nil {
			s.config.Log.Warn("cannot reopen the queues; retrying", "err", err)
			continue
		}
		break
	}
	r := &s.recover
	r.mu.Lock()
	notify := r.notify
	r.mu.Unlock()
	for _, f := range notify { // before requests are accepted, which would use what was in memory
		f()
	}
	r.mu.Lock()
	r.failed, r.cancel = nil, nil
	r.mu.Unlock()
	s.config.Log.Info("queues are available again", "after", time.Since(began))
}

// probe writes and syncs a file in the folder of the streams.
func (s *Server) probe() error {
	f, err := os.CreateTemp(s.dir, "probe-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, probeSize))
	return errors.Join(err, f.Sync(), f.Close())
}

// restart stops the embedded server and starts another on the same files.
func (s *Server) restart(ctx context.Context) error {
	s.mu.Lock()
	e, syncers := s.embedded, s.syncers
	s.embedded, s.syncers = nil, make(map[string]*streamSyncer)
	s.mu.Unlock()
	if e != nil {
		e.Shutdown()
		e.WaitForShutdown()
	}
	for name, y := range syncers {
		y.Close()
		if block, lost := y.Lost(); lost {
			d := jetstreamfiles.Damage{Stream: name, Block: block, First: 1} // the lost records are unknown
			s.config.Log.Error("a file of a stream that was synced is missing or became shorter", "stream", name, "block", block)
			if err := jetstreamfiles.NoteLost(filepath.Join(s.dir, damagedFolder), d); err != nil {
				s.mu.Lock()
				s.syncers[name] = y // retry the next time
				s.mu.Unlock()
				return err
			}
		}
		if err := jetstreamfiles.Rewrite(filepath.Join(s.streams, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.mu.Lock()
			s.syncers[name] = y // retry the next time
			s.mu.Unlock()
			return err
		}
	}
	if s.node == nil {
		if err := s.prepare(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := s.startEmbedded(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.embedded = e
	s.mu.Unlock()
	if err := s.measureStreams(); err != nil {
		return err
	}
	for !s.conn.IsConnected() { // it reconnects by itself
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
