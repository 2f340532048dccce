package maintain

import (
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Usage is the space that the state takes, and the work on it since it was opened.
type Usage struct {
	// Metadata is the size of the database in bytes, Content that of the extents on this machine.
	Metadata, Content int64
	// Compactions is the number of compactions of extents. Freed is what they gave back in bytes, Moved what they copied
	// for that.
	Compactions, Freed, Moved int64
	// Groups is the number of committed groups of the database, Updates that of the updates in them.
	Groups, Updates int64
	// Tier has the figures of the tier of content; nil without one.
	Tier *tier.Stats
}

// Add adds the usage of another shard.
func (u *Usage) Add(o Usage) {
	u.Metadata += o.Metadata
	u.Content += o.Content
	u.Compactions += o.Compactions
	u.Freed += o.Freed
	u.Moved += o.Moved
	u.Groups += o.Groups
	u.Updates += o.Updates
	switch {
	case u.Tier == nil:
		u.Tier = o.Tier
	case o.Tier != nil:
		u.Tier.Add(*o.Tier)
	}
}

// Usage returns the space that the state takes.
func (s *Maintenance) Usage() (u Usage, err error) {
	u.Metadata, err = s.node.DB.Size()
	u.Content = s.node.Extents.Size()
	if t := s.node.Tier; t != nil {
		figures := t.Stats()
		u.Tier, u.Content = &figures, figures.Local+figures.Chunks
	}
	u.Compactions = s.compactions.Load()
	u.Freed = s.freed.Load()
	u.Moved = s.moved.Load()
	u.Groups, u.Updates = s.node.DB.Commits()
	return u, err
}
