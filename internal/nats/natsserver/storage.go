package natsserver

import (
	"cmp"
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

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
)

// Alone reports whether the embedded server is used by this process only: it is no node of a cluster.
func (s *Server) Alone() bool { return s.config.URL == "" && s.member == nil }

// Relaxed reports Config.Relaxed.
func (s *Server) Relaxed() bool { return s.config.Relaxed }

// Settle makes the files of a stream of an embedded server durable besides the records, which JetStream syncs one by
// one: the stream's configuration, and the names of new files. It is called after a record was acknowledged, and before
// a caller sees it. While the server recovers from a failed write it fails: what the server has stored is not certain.
//
// Errors: [ErrStorage], which the server recovers from by itself.
func (s *Server) Settle(stream string) error {
	if s.streams == "" || s.member != nil || s.config.Relaxed {
		return nil
	}
	if err := s.Failed(); err != nil {
		return err
	}
	err := s.settle(stream)
	if err != nil {
		s.Fail(err)
		err = cmp.Or(s.Failed(), err)
	}
	return err
}

func (s *Server) settle(stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.streamDir(stream)
	messages := filepath.Join(dir, jetstreamfiles.MessagesFolder)
	info, err := os.Stat(messages)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	last, known := s.settled[stream]
	if known && info.ModTime().Equal(last) {
		return nil
	}
	seen := time.Now()
	if known {
		err = disk.SyncDir(messages)
	} else {
		err = jetstreamfiles.SyncStream(dir, filepath.Dir(s.dir))
	}
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	if last = info.ModTime(); seen.Sub(last) < settledAfter {
		last = time.Time{} // another change may get the same time
	}
	s.settled[stream] = last
	return nil
}

// settledAfter is the minimum age of a folder's modification time from which on a later change certainly gets another
// one: file systems use the kernel's tick as the time.
const settledAfter = 50 * time.Millisecond

// SyncStream makes durable what JetStream has acknowledged for a stream, if it does not sync each record.
func (s *Server) SyncStream(stream string) error {
	if s.streams == "" || s.member != nil || !s.config.Relaxed {
		return nil
	}
	if err := jetstreamfiles.SyncRecords(s.streamDir(stream)); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	return nil
}

// CutPoint returns the sequence up to which a stream can be purged if records from stay on are needed. On an embedded
// server with files the purge then removes whole blocks and writes none; otherwise it is stay. 0 means that nothing can
// be purged.
func (s *Server) CutPoint(stream string, stay uint64) (uint64, error) {
	if s.streams == "" {
		return stay, nil
	}
	return jetstreamfiles.CutPoint(s.streamDir(stream), stay)
}

func (s *Server) streamDir(stream string) string { return filepath.Join(s.streams, stream) }

// ErrStorage means that the embedded server currently cannot write its files. It wraps the cause.
var ErrStorage = errors.New("queues cannot be written to disk")

// JetStream stops using a stream permanently once a write to it has failed, and after a failed sync the content of the
// disk is unknown. So after such a failure changes are refused until the disk accepts writes again; then the embedded
// server is started again, without an end of the process: it reads its files again, and clients reconnect.
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

// Failed returns an [ErrStorage] with the reason while the server cannot write its files, and nil otherwise. The server
// recovers by itself.
func (s *Server) Failed() error {
	s.recover.mu.Lock()
	defer s.recover.mu.Unlock()
	return s.recover.failed
}

// Suspect is called after a publish to a stream has failed. It returns the failure if the stream cannot be written: an
// [ErrStorage], or an [ErrNoMajority] on a node of a cluster.
func (s *Server) Suspect(stream string) error {
	if err := s.Failed(); err != nil {
		return err
	}
	if s.member != nil {
		return s.member.NoMajority()
	}
	if s.streams == "" {
		return nil
	}
	e := s.Running()
	if e == nil {
		return nil
	}
	if !e.JetStreamEnabled() {
		s.Fail(errors.New("JetStream has stopped"))
		return s.Failed()
	}
	h := e.Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream})
	if h.StatusCode != 404 && h.Error != "" {
		s.Fail(errors.New(h.Error))
	}
	return s.Failed()
}

// ErrNoRoom is the failure of a node whose disk is full. It is an [ErrStorage].
var ErrNoRoom error = noRoom{}

type noRoom struct{}

func (noRoom) Error() string {
	return "the disk of this node is full: it has stopped its copies and answers 503 until there is room; " +
		"the other nodes serve"
}

func (noRoom) Is(target error) bool { return target == ErrStorage }

func (s *Server) exhausted() bool { return s.config.Exhausted != nil && s.config.Exhausted() }

// CheckRoom stops a node whose disk has no room left, until there is room.
func (s *Server) CheckRoom() {
	if s.exhausted() {
		s.Fail(ErrNoRoom)
	}
}

// Fail records that the server cannot write its files, and starts the recovery.
func (s *Server) Fail(cause error) {
	r := &s.recover
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil || r.stopped {
		return
	}
	// JetStream only returns the text
	if strings.Contains(cause.Error(), syscall.ENOSPC.Error()) && !diskspace.IsFull(cause) {
		cause = fmt.Errorf("%w: %w", syscall.ENOSPC, cause)
	}
	r.failed = fmt.Errorf("%w: %w", ErrStorage, cause)
	if errors.Is(cause, ErrNoRoom) {
		r.failed = ErrNoRoom
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	if errors.Is(cause, ErrNoRoom) {
		s.config.Log.Error(cause.Error())
	} else if s.member != nil {
		s.config.Log.Error("this node cannot write its copies, and answers 503 until it can; the other nodes serve", "err",
			cause)
	} else {
		s.config.Log.Error("queues cannot be written; waiting until the disk accepts writes", "err", cause)
	}
	go func() {
		defer close(r.done)
		s.recoverFrom(ctx)
	}()
}

// recoverFrom waits until the disk accepts writes and starts the embedded server again.
func (s *Server) recoverFrom(ctx context.Context) {
	began := time.Now()
	for pause := probePause; ; pause = min(2*pause, probeMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if s.exhausted() {
			// Other nodes go on writing: only a server that does not run takes no more room.
			if s.Running() != nil {
				s.StopEmbedded()
			}
			pause = probePause
			continue
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
	r.failed, r.cancel = nil, nil
	r.mu.Unlock()
	if s.member != nil {
		s.config.Log.Info("this node writes its copies again", "after", time.Since(began))
	} else {
		s.config.Log.Info("queues are available again", "after", time.Since(began))
	}
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

// rewrite writes the last files of each stream again: pages that the operating system could not write may be missing on
// the disk although they are in memory, and no later sync would write them. A node of a cluster has other copies.
func (s *Server) rewrite() error {
	if s.streams == "" {
		return nil
	}
	entries, err := os.ReadDir(s.streams)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := jetstreamfiles.Rewrite(s.streamDir(e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return s.verify()
}

// restart stops the embedded server and starts another on the same files.
func (s *Server) restart(ctx context.Context) error {
	if s.Running() != nil {
		s.StopEmbedded()
	}
	if err := errors.Join(s.rewrite(), ctx.Err()); err != nil {
		return err
	}
	if err := s.StartIn(s.dir); err != nil {
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
