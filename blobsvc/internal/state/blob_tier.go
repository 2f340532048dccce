package state

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

const (
	// ArchiveTier is the tier whose blobs cannot be read until they are moved to another.
	ArchiveTier = "Archive"
	// SmartTier is the tier that leaves the choice of a tier to the service.
	SmartTier = "Smart"
	// DefaultTier is the account's default access tier.
	DefaultTier = "Hot"
)

// SmartAccessTier is the tier in which the service keeps a blob of the tier Smart, "" for other blobs. It is always
// Hot: the tiers do not differ here, and Azure moves only blobs that were not accessed for a month.
// https://learn.microsoft.com/azure/storage/blobs/access-tiers-smart
func (b *Blob) SmartAccessTier() string {
	if b.Tier == SmartTier {
		return "Hot"
	}
	return ""
}

// AccessTier is the tier that a blob shows; inferred if it is the account's default. Snapshots of page and append blobs
// have none.
func (b *Blob) AccessTier() (tier string, inferred bool) {
	switch {
	case b.Tier != "":
		return b.Tier, false
	case b.IsSnapshot() && b.Kind != BlockBlob:
		return "", false
	}
	return DefaultTier, true
}

// rehydrateAfter is the time to move a blob out of the archive. On Azure it takes hours.
const rehydrateAfter = time.Minute

// finishRehydration moves b to its new tier if its rehydration has ended.
func (b *Blob) finishRehydration(now ticks.Ticks) {
	if b.RehydrateTo != "" && now >= b.TierChanged.Add(rehydrateAfter) {
		b.Tier, b.RehydrateTo, b.RehydrateHigh = b.RehydrateTo, "", false
	}
}

// RehydratePriority is the priority of the rehydration of b, "" if none exists.
func (b *Blob) RehydratePriority() string {
	switch {
	case b.RehydrateTo == "":
		return ""
	case b.RehydrateHigh:
		return "High"
	}
	return "Standard"
}

// SetTier moves a blob, snapshot or version to a tier. Content does not move with it. pending is set if the blob leaves
// the archive, which takes time. high is the priority of that; a rehydration of standard priority can be given a high
// one.
func (s Blobs) SetTier(w *Write, tier string, high bool) (pending bool, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkTier, func(c *change, b *Blob) error {
		// The closure may run more than once, and an earlier run may have set it.
		pending = false
		if b.Kind != BlockBlob {
			return ErrTier
		}
		if b.RehydrateTo != "" && (tier == ArchiveTier || tier != b.RehydrateTo) {
			return ErrRehydrating
		}
		if b.slot != baseSlot && b.Tier == ArchiveTier && tier != ArchiveTier {
			return ErrArchivedRecord // snapshots and versions leave the archive only as copies
		}
		what := eventTier
		c.previous.record(b)
		if b.Tier == ArchiveTier && tier != ArchiveTier {
			b.RehydrateTo, c.previous.rehydrating = tier, tier
			b.RehydrateHigh = b.RehydrateHigh || high
			what, pending = eventStarted, true
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
