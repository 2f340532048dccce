package natsserver

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
)

// damagedFolder is the folder, beside the server's own, that holds copies of what was damaged, and notes of what was lost.
const damagedFolder = "damaged"

// HeaderSynced is the header that publishers put on their records; see [jetstreamfiles.HeaderSynced].
const HeaderSynced = jetstreamfiles.HeaderSynced

// HeaderSum is the header of records that carry a checksum of their publisher, who verifies it on reading: [Sum] of the subject's last
// token and the value of [HeaderRecord], or, without that header, of the subject and the payload. A record whose payload alone is damaged
// is served although JetStream's own checksum does not match.
const (
	HeaderSum    = "Lazuli-Sum"
	HeaderRecord = "Lazuli-Message"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the CRC32C of two texts with a space between them, in hexadecimal.
func Sum(first, second string) string {
	var b [96 + 160]byte
	text := append(append(append(b[:0], first...), ' '), second...)
	var digits [4]byte
	return hex.EncodeToString(binary.BigEndian.AppendUint32(digits[:0], crc32.Checksum(text, castagnoli)))
}

// knownAs reports whether it is certain what a damaged record is about: its subject and state match their checksum or, where the checksum
// covers the payload, the subject is that of other records as well.
func knownAs(r jetstreamfiles.DamagedRecord) bool {
	sum := string(r.Header(HeaderSum))
	if sum == "" {
		return false
	}
	value := r.Header(HeaderRecord)
	if value == nil {
		return r.SubjectElsewhere
	}
	token := r.Subject[strings.LastIndexByte(r.Subject, '.')+1:]
	return Sum(token, string(value)) == sum
}

// prepare verifies the streams before the server reads them, and logs what is damaged.
func (s *Server) prepare() error {
	keep := filepath.Join(s.dir, damagedFolder)
	found, err := jetstreamfiles.Prepare(s.streams, keep, knownAs)
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
