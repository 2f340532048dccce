package natsserver

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
)

// Durable reports whether Sync makes records durable: on an embedded server with files that is not relaxed. On an external NATS, its
// own configuration decides.
func (s *Server) Durable() bool { return s.durable }

// Sync returns when everything that JetStream had acknowledged for the stream before the call is on disk. Concurrent
// calls share syncs. Where the durability is not ours (relaxed, in memory, external NATS) it returns at once.
//
// A missing file is an error. After an error what is on disk is unknown, every later Sync of that stream fails as well, and the
// server recovers as [Server.Failed] describes: what JetStream had acknowledged must be read again.
func (s *Server) Sync(stream string) error {
	if !s.durable {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	if y == nil {
		if s.closed || s.syncers == nil {
			s.mu.Unlock()
			return errors.New("natsserver: closed")
		}
		y = jetstreamfiles.NewSyncer(s.streamDir(stream))
		s.syncers[stream] = y
		if len(s.syncers) >= s.closeIdleAt() {
			s.closeIdleLocked()
		}
	}
	s.mu.Unlock()
	if err := y.Sync(); err != nil {
		s.mu.Lock()
		current := s.syncers[stream] == y
		s.mu.Unlock()
		if current { // neither forgotten, for its stream was deleted, nor replaced after a recovery
			s.fail(fmt.Errorf("syncing stream %s: %w", stream, err))
		}
		return err
	}
	return nil
}

func (s *Server) streamDir(stream string) string { return filepath.Join(s.streams, stream) }

// CutPoint returns up to which sequence a stream can be purged, given that records from floor on are needed: on files of our own
// the purge then removes whole blocks and writes none, elsewhere it is floor. 0 is nothing.
func (s *Server) CutPoint(stream string, floor uint64) (uint64, error) {
	if s.streams == "" {
		return floor, nil
	}
	return jetstreamfiles.CutPoint(s.streamDir(stream), floor)
}

// NextCut returns a sequence after oldest up to which the stream could be cut if nothing before it were needed: on files of our own the
// begin of the next block, elsewhere an eighth of the way to newest. 0 is none.
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

// SyncConfig makes a stream's creation or its new configuration durable.
func (s *Server) SyncConfig(stream string) error {
	if !s.durable {
		return nil
	}
	if err := jetstreamfiles.SyncStream(s.streamDir(stream)); err != nil {
		return err
	}
	return s.syncFolders()
}

// syncFolders makes the folders above the streams durable, once: JetStream makes some of them with the first stream.
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

// Forget is called after a stream was deleted: it makes that durable and releases what Sync holds for the stream.
func (s *Server) Forget(stream string) error {
	if !s.durable {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	delete(s.syncers, stream)
	s.mu.Unlock()
	if y != nil {
		y.Close()
	}
	return jetstreamfiles.SyncFolders(s.streams, s.streams)
}

// idleTime is how long a stream must not have been synced for its file to be closed.
const idleTime = 10 * time.Second

// closeIdleAt is the number of streams from which on the files of idle ones are closed: a small part of the files that the process may
// open.
func (s *Server) closeIdleAt() int { return max(16, openFiles()/16) }

// closeIdleLocked closes the files of streams that were not synced lately. It is called as often as streams are synced for the first
// time, and drops what it closed, so that it looks at few.
func (s *Server) closeIdleLocked() {
	before := time.Now().Add(-idleTime)
	for name, y := range s.syncers {
		if y.CloseIdle(before) {
			delete(s.syncers, name)
		}
	}
}
