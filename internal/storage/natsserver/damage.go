package natsserver

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
)

// damagedFolder is the folder, beside the server's own, that holds copies of what was damaged, and notes of what was lost.
const damagedFolder = "damaged"

// HeaderSynced is the header that publishers put on their records; see [jetstreamfiles.HeaderSynced].
const HeaderSynced = jetstreamfiles.HeaderSynced

// HeaderSum is the header of records that carry a checksum of their publisher, who verifies it on reading. A record with it is served
// even if JetStream's own checksum does not match.
const HeaderSum = "Lazuli-Sum"

// prepare verifies the streams before the server reads them, and logs what is damaged.
func (s *Server) prepare() error {
	keep := filepath.Join(s.dir, damagedFolder)
	found, err := jetstreamfiles.Prepare(s.streams, keep, selfChecked)
	for _, d := range found {
		switch {
		case d.Torn && d.Kept == "":
			s.config.Log.Info("an incomplete write at the end of a stream is cut off", "stream", d.Stream, "block", d.Block, "bytes", d.Size)
		default:
			s.config.Log.Error("damaged file of a stream", "damage", d.String(), "copy", d.Kept)
		}
	}
	if err != nil {
		return fmt.Errorf("natsserver: verifying the streams: %w", err)
	}
	lost, err := jetstreamfiles.Lost(keep)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged, s.lost = found, lost
	return nil
}

func selfChecked(headers []byte) bool { return bytes.Contains(headers, []byte("\r\n"+HeaderSum+":")) }

// Keep writes what is taken out of a stream because it is damaged to a file beside the copies of damaged files, and returns its path. It is
// for files of our own.
func (s *Server) Keep(name string, data []byte) (string, error) {
	if s.dir == "" {
		return "", errors.New("natsserver: there is no folder to keep damaged data in")
	}
	return jetstreamfiles.Keep(filepath.Join(s.dir, damagedFolder), name, data)
}

// LostStreams returns the streams that [Server.Lost] knows of.
func (s *Server) LostStreams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.lost))
}

// Damaged returns what was found damaged when the server started.
func (s *Server) Damaged() []jetstreamfiles.Damage { return s.damaged }

// Lost returns the losses of a stream that nobody has accepted: records that had been synced and cannot be read.
func (s *Server) Lost(stream string) []jetstreamfiles.Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[stream]
}

// Accept forgets the losses of a stream: it is used without them from now on. The copies of the damaged files stay.
func (s *Server) Accept(stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost[stream]) == 0 {
		return nil
	}
	if err := jetstreamfiles.Accept(filepath.Join(s.dir, damagedFolder), stream); err != nil {
		return err
	}
	delete(s.lost, stream)
	return nil
}
