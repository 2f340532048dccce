package fsck

import (
	"fmt"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// torn names the finished extents that are not intact throughout. Those that were being written when the process ended are not named: the
// next start deals with them. Content that needs what is not intact is reported by the check of the blobs.
func (c *check) torn() {
	s, err := extent.Open(c.dir.Extents(), extent.Options{ReadOnly: true})
	if err != nil {
		c.found(Error, "extents", "%v", err)
		return
	}
	defer s.Close()
	for _, x := range s.Stats() {
		_, n, err := s.Walk(x.ID, nil)
		if err != nil || n == 0 || !x.Finished {
			continue
		}
		c.found(Warning, fmt.Sprintf("extents, %016x", x.ID), "%d bytes are not intact records; they are unused, or reported with the blob that needs them", n)
	}
}

// logger turns what JetStream complains about into warnings: it repairs, and what cannot be repaired shows in the
// streams.
func (c *check) logger() *slog.Logger { return slog.New(&complaints{found: c.found}) }
