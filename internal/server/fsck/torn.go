package fsck

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// torn reports the finished extents that are not completely intact. It skips extents that were being written when the
// process ended: the next start finishes them. The check of the blobs reports content that needs the damaged bytes.
func (c *check) torn() {
	s, err := extent.Open(c.of.Extents(), extent.Options{ReadOnly: true})
	if err != nil {
		c.found(Error, c.of.Name("extents"), "%v", err)
		return
	}
	defer s.Close()
	for _, x := range s.Stats() {
		_, n, err := s.Walk(x.ID, nil)
		if err != nil || n == 0 || !x.Finished {
			continue
		}
		c.found(Warning, fmt.Sprintf("%s, %016x", c.of.Name("extents"), x.ID),
			"%d bytes are not intact records; they are unused, or reported with the blob that needs them", n)
	}
}
