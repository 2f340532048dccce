package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/peering"
)

// ErrDamaged means that the files of a stream are damaged, and that the server would cut off intact records behind the
// damage if it read them.
var ErrDamaged = errors.New("the files of the queues' log are damaged")

// verify reads the files of the streams before the server does. JetStream cuts a file off at the first record that it
// cannot read, whatever follows: that is right only for what a crash has left, the end of the last file. What is
// damaged elsewhere stops the start, unless the records were never synced: then what follows the damage is cut off as
// well.
func (s *Server) verify() error {
	entries, err := os.ReadDir(s.streams)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(s.streams, e.Name())
		found, err := jetstreamfiles.Verify(dir)
		if err == nil && len(found) > 0 && found[0].Meta != "" {
			var aside string
			if aside, err = jetstreamfiles.SetAsideEmpty(dir, s.dir); aside != "" {
				s.config.Log.Info("setting aside a stream that was being created when the machine stopped", "stream", e.Name(),
					"kept", aside)
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("natsserver: verifying the streams: %w", err)
		}
		for _, d := range found {
			switch {
			case d.Torn:
				s.config.Log.Info("cutting off an incomplete write at the end of a stream", "stream", d.Stream, "block", d.Block,
					"bytes", d.Size)
				continue
			case s.config.Relaxed && d.Meta == "":
				s.config.Log.Warn("cutting off records that were not synced when the machine stopped", "damage", d.String())
				if err := jetstreamfiles.Cut(dir, d); err != nil {
					return fmt.Errorf("natsserver: %w", err)
				}
			default:
				return fmt.Errorf("%w: %v; `lazuli fsck` shows what can be read, and `lazuli fsck --repair` keeps that", ErrDamaged,
					d)
			}
			break
		}
	}
	return nil
}

// leaveIfDamaged verifies the files of a node of a cluster before its server reads them. JetStream drops what follows a
// damaged record, and a member that has forgotten what it had acknowledged could vote for a leader that lacks it. So a
// damaged folder is renamed: the node has an empty folder then, is another member than before, and can join when the
// old one was removed.
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
	s.config.Log.Error("this node has left the cluster since its files are damaged; to let it join again, run the "+
		"command on another node",
		"node", id.Node, "command", "lazuli cluster leave "+id.Node, "kept", aside)
	return nil
}
