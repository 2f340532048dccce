package natsserver

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/peering"
)

// damagedFolder is the folder, next to the server's own, that holds copies of damaged data, and lists of lost records.
const damagedFolder = "damaged"

// HeaderSynced is the header that publishers put on their records; see [jetstreamfiles.HeaderSynced].
const HeaderSynced = jetstreamfiles.HeaderSynced

// HeaderSum is the header of records with a checksum of their publisher, who verifies it on reading: [Sum] of the subject's last token and the
// value of [HeaderRecord], or, without that header, of the subject and the payload. A record of which only the payload is damaged is served
// although JetStream's own checksum does not match.
const (
	HeaderSum    = "Lazuli-Sum"
	HeaderRecord = "Lazuli-Message"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the CRC32C of two texts with a space between them, in hexadecimal.
func Sum(first, second string) string {
	var b [96 + 160]byte
	text := append(append(append(b[:0], first...), ' '), second...)
	var sum [4]byte
	var digits [8]byte
	return string(hex.AppendEncode(digits[:0], binary.BigEndian.AppendUint32(sum[:0], crc32.Checksum(text, castagnoli))))
}

// knownAs reports whether the subject of a damaged record is certain: its subject and state match their checksum or, if the checksum covers the
// payload, other records have the subject as well.
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

// prepare verifies the streams before the server reads them, and logs the damage.
func (s *Server) prepare() error {
	keep := filepath.Join(s.dir, damagedFolder)
	found, err := jetstreamfiles.Prepare(s.streams, keep, knownAs)
	for _, d := range found {
		switch {
		case d.Torn && d.Kept == "":
			s.config.Log.Info("cutting off an incomplete write at the end of a stream", "stream", d.Stream, "block", d.Block, "bytes", d.Size)
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

// leaveIfDamaged verifies the files of a node of a cluster before its server reads them. JetStream drops what follows a damaged record, and a member
// that has forgotten what it had acknowledged could vote for a leader that lacks it. So a damaged folder is renamed: the node has an empty folder then, is
// another member than before, and can join when the old one was removed.
func (s *Server) leaveIfDamaged() error {
	dir := s.config.Dir
	id, err := peering.ReadIdentity(dir)
	if errors.Is(err, peering.ErrNoIdentity) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := jetstreamfiles.VerifyTree(filepath.Join(dir, id.Cluster))
	if err != nil {
		return fmt.Errorf("natsserver: verifying the files of the node: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	for _, d := range found {
		s.config.Log.Error("damaged file of a stream", "damage", d.String())
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().UnixNano())
	if err := os.Rename(dir, aside); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	if err := errors.Join(disk.MkdirAll(dir, 0o700), disk.OS.SyncDir(filepath.Dir(dir))); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	s.config.Log.Error("this node has left the cluster since its files are damaged; to let it join again, run the command on another node",
		"node", id.Node, "command", "lazuli cluster leave "+id.Node, "kept", aside)
	return nil
}

// Keep writes damaged data that was removed from a stream to a file next to the copies of damaged files, and returns the file's path. It needs
// an embedded server with files.
func (s *Server) Keep(name string, data []byte) (string, error) {
	if s.dir == "" {
		return "", errors.New("natsserver: no folder for damaged data")
	}
	return jetstreamfiles.Keep(filepath.Join(s.dir, damagedFolder), name, data)
}

// LostStreams returns the names of the streams for which [Server.Lost] returns losses.
func (s *Server) LostStreams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.lost))
}

// Damaged returns the damage that was found when the server started.
func (s *Server) Damaged() []jetstreamfiles.Damage { return s.damaged }

// Lost returns the losses of a stream that were not accepted: records that had been synced and cannot be read.
func (s *Server) Lost(stream string) []jetstreamfiles.Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[stream]
}

// Accept removes the recorded losses of a stream: it is used without the lost records from now on. The copies of the damaged files stay.
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
