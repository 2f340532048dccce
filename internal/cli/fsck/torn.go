package fsck

import (
	"fmt"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// torn names the extents that end with something that is no record. One that was being written when the process ended
// may: the next start cuts it off. A finished one must not.
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
		c.found(Error, fmt.Sprintf("extents, %016x", x.ID), "%d bytes at the end are no record, and the extent was finished", n)
	}
}

// logger turns what JetStream complains about into warnings: it repairs, and what cannot be repaired shows in the
// streams.
func (c *check) logger() *slog.Logger { return slog.New(&complaints{found: c.found}) }
