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

// ErrStorage means that the embedded server cannot write its files at the moment. The error that caused it is wrapped as well.
var ErrStorage = errors.New("queues cannot be written to disk")

// JetStream stops using a stream for good once a write to it has failed, and a failed sync leaves unknown what is on disk. So after
// such a failure the server refuses everything, tries until the disk takes writes again, and is started anew then: it reads its
// files, and clients connect again by themselves.
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

// Failed returns nil, or while the server cannot write its files an [ErrStorage] with the reason. It recovers by itself.
func (s *Server) Failed() error {
	s.recover.mu.Lock()
	defer s.recover.mu.Unlock()
	return s.recover.failed
}

// OnRecovery has a function called after the server has recovered from a failure: it reads its files again then, and what had been
// acknowledged by JetStream but not synced may be there or not.
func (s *Server) OnRecovery(f func()) {
	s.recover.mu.Lock()
	defer s.recover.mu.Unlock()
	s.recover.notify = append(s.recover.notify, f)
}

// Suspect is called when the server did not answer a request on a stream for a while. It finds out whether writes to the stream have
// failed, and returns the failure.
func (s *Server) Suspect(stream string) error {
	if err := s.Failed(); err != nil || s.streams == "" {
		return err
	}
	s.mu.Lock()
	e := s.embedded
	s.mu.Unlock()
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

// fail notes a failure and begins to recover from it.
func (s *Server) fail(cause error) {
	r := &s.recover
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil || r.stopped {
		return
	}
	if strings.Contains(cause.Error(), syscall.ENOSPC.Error()) && !diskspace.IsFull(cause) { // JetStream passes on the text alone
		cause = fmt.Errorf("%w: %w", syscall.ENOSPC, cause)
	}
	r.failed = fmt.Errorf("%w: %w", ErrStorage, cause)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	s.config.Log.Error("queues cannot be written; they are used again once the disk takes writes", "err", cause)
	go func() {
		defer close(r.done)
		s.recoverFrom(ctx)
	}()
}

// recoverFrom waits until the disk takes writes and starts the embedded server anew.
func (s *Server) recoverFrom(ctx context.Context) {
	began := time.Now()
	for pause := probePause; ; pause = min(2*pause, probeMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := s.probe(); err != nil {
			s.config.Log.Debug("the disk of the queues does not take writes", "err", err)
			continue
		}
		if err := s.restart(ctx); err != nil {
			s.config.Log.Warn("the queues could not be opened again", "err", err)
			continue
		}
		break
	}
	r := &s.recover
	r.mu.Lock()
	r.failed, r.cancel = nil, nil
	notify := r.notify
	r.mu.Unlock()
	for _, f := range notify {
		f()
	}
	s.config.Log.Info("queues are used again", "after", time.Since(began))
}

// probe writes and syncs a file where the streams are.
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
	s.embedded, s.syncers = nil, make(map[string]*jetstreamfiles.Syncer)
	s.mu.Unlock()
	if e != nil {
		e.Shutdown()
		e.WaitForShutdown()
	}
	for name, y := range syncers {
		y.Close()
		if err := jetstreamfiles.Rewrite(filepath.Join(s.streams, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.mu.Lock()
			s.syncers[name] = y // once more the next time
			s.mu.Unlock()
			return err
		}
	}
	if err := s.prepare(); err != nil {
		return err
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
	for !s.conn.IsConnected() { // it connects by itself
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
