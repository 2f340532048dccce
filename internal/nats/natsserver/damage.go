package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
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
		// A stream without a description was being created and has no records. It is set aside and not removed: this
		// conclusion rests on a file that is missing.
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
			// The server cuts it off itself; here it is only logged.
			case d.Torn:
				s.config.Log.Info("cutting off an incomplete write at the end of a stream", "stream", d.Stream, "block", d.Block,
					"bytes", d.Size)
				continue
			// Without sync a power failure may leave holes anywhere among the latest records; what follows a hole was not
			// promised either.
			case s.config.Relaxed && d.Meta == "":
				s.config.Log.Warn("cutting off records that were not synced when the machine stopped", "damage", d.String())
				if err := jetstreamfiles.Cut(dir, d); err != nil {
					return fmt.Errorf("natsserver: %w", err)
				}
			default:
				return fmt.Errorf("%w: %v; `lazuli fsck` shows what can be read, and `lazuli fsck --repair` keeps that", ErrDamaged,
					d)
			}
			// Only after a cut, as "continue" left the loop's body before: the other places were in what is now cut off.
			break
		}
	}
	return nil
}
