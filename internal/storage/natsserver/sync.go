package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Sync returns when everything that JetStream had acknowledged for the stream before the call is on disk. Concurrent
// calls share syncs. Where the durability is not ours (relaxed, in memory, external NATS) it returns at once.
//
// After an error the state of the stream on disk is unknown, and every later Sync of that stream fails as well: what
// was acknowledged by JetStream but not synced must be read again after a restart.
func (s *Server) Sync(stream string) error {
	if s.streams == "" {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	if y == nil {
		if s.closed {
			s.mu.Unlock()
			return errors.New("natsd: closed")
		}
		y = newSyncer(&blocks{dir: filepath.Join(s.streams, stream, "msgs")})
		s.syncers[stream] = y
	}
	s.mu.Unlock()
	return y.wait()
}

// SyncConfig makes a stream's creation or its new configuration durable.
func (s *Server) SyncConfig(stream string) error {
	if s.streams == "" {
		return nil
	}
	dir := filepath.Join(s.streams, stream)
	for _, path := range []string{
		filepath.Join(dir, "meta.inf"), filepath.Join(dir, "meta.sum"), filepath.Join(dir, "msgs"), dir, s.streams,
	} {
		if err := syncPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("natsd: %w", err)
		}
	}
	return nil
}

// Forget is called after a stream was deleted: it makes that durable and releases what Sync holds for the stream.
func (s *Server) Forget(stream string) error {
	if s.streams == "" {
		return nil
	}
	s.mu.Lock()
	y := s.syncers[stream]
	delete(s.syncers, stream)
	s.mu.Unlock()
	if y != nil {
		y.close()
	}
	if err := syncPath(s.streams); err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
