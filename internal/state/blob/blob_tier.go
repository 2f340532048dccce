package blob

import "github.com/lazuli-storage/lazuli/internal/state/blob/record"

// SetTier moves a blob, snapshot or version to a tier. Content does not move with it. pending is set if the blob leaves
// the archive, which takes time. high is the priority of that; a rehydration of standard priority can be given a high
// one.
func (s Blobs) SetTier(w *Write, tier string, high bool) (pending bool, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkTier, func(c *change, b *record.Blob) error {
		// The closure may run more than once, and an earlier run may have set it.
		pending = false
		if b.Kind != record.BlockBlob {
			return ErrTier
		}
		if b.RehydrateTo != "" && (tier == record.ArchiveTier || tier != b.RehydrateTo) {
			return ErrRehydrating
		}
		if b.Slot != record.BaseSlot && b.Tier == record.ArchiveTier && tier != record.ArchiveTier {
			return ErrArchivedRecord // snapshots and versions leave the archive only as copies
		}
		what := record.EventTier
		c.previous.record(b)
		if b.Tier == record.ArchiveTier && tier != record.ArchiveTier {
			b.RehydrateTo = tier
			c.previous.rehydrating = tier
			b.RehydrateHigh = b.RehydrateHigh || high
			what, pending = record.EventStarted, true
		} else {
			b.Tier = tier
		}
		b.TierChanged = c.now
		c.put(b)
		c.note(what, b)
		return nil
	})
	return pending, err
}
