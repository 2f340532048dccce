package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
)

// Durable reports whether Sync makes records durable: on an embedded server with files that is not relaxed. For an external NATS, its own
// configuration applies.
func (s *Server) Durable() bool { return s.durable }

// Sync returns when all records that JetStream had acknowledged for the stream before the call are on disk. Concurrent calls share syncs. If
// Sync does not control the durability (relaxed, in memory, external NATS) it returns at once.
//
// A missing file is an error. After an error the content of the disk is unknown, every later Sync of that stream fails as well, and the server
// recovers as [Server.Failed] describes: records that JetStream had acknowledged must be read again.
func (s *Server) Sync(stream string) error {
	if !s.durable {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	created := y == nil
	if created {
		if s.closed || s.syncers == nil {
			s.mu.Unlock()
			return errors.New("natsserver: closed")
		}
		y = &streamSyncer{Syncer: jetstreamfiles.NewSyncer(s.streamDir(stream), s.lastBlocks[stream])}
		delete(s.lastBlocks, stream)
		s.syncers[stream] = y
	}
	y.calls.Add(1)
	defer y.calls.Add(-1)
	if now := time.Now(); created && len(s.syncers) >= s.closeIdleFrom && now.Sub(s.idleClosed) >= closeIdlePause {
		s.idleClosed = now
		s.closeIdleLocked(now.Add(-s.idleTime))
	}
	s.mu.Unlock()
	if err := y.Sync(); err != nil {
		s.mu.Lock()
		current := s.syncers[stream] == y
		s.mu.Unlock()
		if current { // neither forgotten because its stream was deleted, nor replaced after a recovery
			s.fail(fmt.Errorf("syncing stream %s: %w", stream, err))
		}
		return err
	}
	return nil
}

// measureStreams notes the sizes of all streams' last blocks after JetStream has read them, so that the first sync notices a block that became
// shorter.
func (s *Server) measureStreams() error {
	if !s.durable || s.node != nil {
		return nil
	}
	entries, err := os.ReadDir(s.streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("natsserver: %w", err)
	}
	found := make(map[string]jetstreamfiles.LastBlock, len(entries))
	for _, e := range entries {
		last, err := jetstreamfiles.ReadLastBlock(s.streamDir(e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // JetStream removes streams in the background
			return fmt.Errorf("natsserver: %w", err)
		}
		found[e.Name()] = last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastBlocks = found
	return nil
}

func (s *Server) streamDir(stream string) string { return filepath.Join(s.streams, stream) }

// CutPoint returns the sequence up to which a stream can be purged if records from floor on are needed. On an embedded server with files the
// purge then removes whole blocks and writes none; otherwise it is floor. 0 means that nothing can be purged.
func (s *Server) CutPoint(stream string, floor uint64) (uint64, error) {
	if s.streams == "" {
		return floor, nil
	}
	return jetstreamfiles.CutPoint(s.streamDir(stream), floor)
}

// NextCut returns a sequence after oldest up to which the stream could be cut if nothing before it were needed: on an embedded server with files
// the start of the next block, otherwise an eighth of the way to newest. 0 means that the stream cannot be cut.
func (s *Server) NextCut(stream string, oldest, newest uint64) (uint64, error) {
	if s.streams == "" {
		if newest-oldest < 64 {
			return 0, nil
		}
		return oldest + (newest-oldest)/8, nil
	}
	firsts, err := jetstreamfiles.FirstSequences(s.streamDir(stream))
	if err != nil {
		return 0, err
	}
	for _, first := range firsts {
		if first > oldest {
			return first, nil
		}
	}
	return 0, nil
}

// SyncConfig makes the creation of a stream, or a change of its configuration, durable. After an error the server recovers as [Server.Failed]
// describes.
func (s *Server) SyncConfig(stream string) error {
	if !s.durable {
		return nil
	}
	err := jetstreamfiles.SyncStream(s.streamDir(stream))
	if err == nil {
		err = s.syncFolders()
	}
	if err != nil {
		s.fail(fmt.Errorf("syncing the configuration of stream %s: %w", stream, err))
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// syncFolders makes the folders above the streams durable, once: JetStream creates some of them with the first stream.
func (s *Server) syncFolders() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foldersSynced {
		return nil
	}
	err := jetstreamfiles.SyncFolders(s.streams, filepath.Dir(s.dir))
	s.foldersSynced = err == nil
	return err
}

// Forget is called after a stream was deleted: it makes the deletion durable and releases the stream's syncer.
func (s *Server) Forget(stream string) error {
	if s.open != nil {
		s.open.forget(stream)
	}
	if !s.durable {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	delete(s.syncers, stream)
	delete(s.lastBlocks, stream)
	s.mu.Unlock()
	if y != nil {
		y.Close()
	}
	return jetstreamfiles.SyncFolders(s.streams, s.streams)
}

// streamSyncer is the syncer of a stream.
type streamSyncer struct {
	*jetstreamfiles.Syncer
	calls atomic.Int32 // calls of [Server.Sync] that use it; it grows only while the server's mu is held
}

// idleTime is the time without a sync after which the file of a stream may be closed, and closeIdlePause the minimum time between two searches for
// such streams, which look at all of them.
const (
	idleTime       = 10 * time.Second
	closeIdlePause = time.Second
)

// closeIdleFrom is the number of streams from which on the files of idle streams are closed: a small part of the files that the process may open.
func closeIdleFrom(files int) int { return max(16, files/16) }

// closeIdleLocked closes the files of streams that were not synced since a time, and removes their syncers. One that a call is about to use stays: a
// failure of a syncer that was removed would not be noticed, and its file would not be closed.
func (s *Server) closeIdleLocked(since time.Time) {
	for name, y := range s.syncers {
		if y.calls.Load() == 0 && y.CloseIdle(since) {
			s.lastBlocks[name] = y.Last()
			delete(s.syncers, name)
		}
	}
}
