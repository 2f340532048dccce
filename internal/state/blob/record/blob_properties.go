package record

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
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

// FinishRehydration moves b to its new tier if its rehydration has ended.
func (b *Blob) FinishRehydration(now ticks.Ticks) {
	// Computed at each read in place of a job in the background: the record says what to become and when.
	if b.RehydrateTo != "" && now >= b.TierChanged.Add(rehydrateAfter) {
		b.Tier = b.RehydrateTo
		b.RehydrateTo = ""
		b.RehydrateHigh = false
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

// IsVersion reports whether b is a previous version, not a snapshot and not the base blob.
func (b *Blob) IsVersion() bool { return b.Slot != BaseSlot && b.Version != 0 }

// IsSnapshot reports whether b is a snapshot.
func (b *Blob) IsSnapshot() bool { return b.Slot != BaseSlot && b.Version == 0 }

// IsBase reports whether b is the base blob: the current version, or a blob without versions.
func (b *Blob) IsBase() bool { return b.Slot == BaseSlot }

// ShowAsBase makes b appear as the base blob, for listings in which the newest version represents a deleted blob.
func (b *Blob) ShowAsBase() { b.Slot, b.Deleted = BaseSlot, 0 }

// Snapshot is the time of a snapshot.
func (b *Blob) Snapshot() ticks.Ticks { return ticks.Ticks(b.Slot) }

// IsIncremental reports whether b is the destination of incremental copies itself, of which only the snapshots are
// read.
func (b *Blob) IsIncremental() bool { return b.Slot == BaseSlot && b.Incremental.Source != "" }

// IsDirectory reports whether b is a directory of a tree.
func (b *Blob) IsDirectory() bool { return b.Node != nil && b.Node.Directory }

const Day = ticks.Ticks(24 * time.Hour / 100)

// PurgeAt returns the time until which a deleted blob can be restored, and at which it is removed.
func (b *Blob) PurgeAt() ticks.Ticks { return b.Deleted + ticks.Ticks(b.KeptDays)*Day }

// RemainingDays is the number of whole days until a deleted blob is removed.
func (b *Blob) RemainingDays(now ticks.Ticks) int64 { return int64(max(0, b.PurgeAt()-now) / Day) }

// Expired reports whether b is a base blob whose expiry time has come. A protected blob, and the destination of a
// pending copy, stay until that has ended.
func (b *Blob) Expired(now ticks.Ticks) bool {
	// Only the base slot expires: a snapshot expires with its blob, and a version stays.
	return b.Expires != 0 && b.Expires <= now && b.Slot == BaseSlot && b.Deleted == 0 &&
		b.Copy.Status != CopyPending && b.CheckDeletable(now) == nil
}

// Adopt gives b everything of a source but its content, and the metadata only if b has none.
func (b *Blob) Adopt(from *Blob) {
	b.Kind = from.Kind
	b.Length = from.Length
	b.Sequence = from.Sequence
	b.Blocks = from.Blocks
	b.Sealed = from.Sealed
	b.Headers = from.Headers
	// nil and not empty: a request that sends no metadata takes that of the source, one that sends any replaces all of
	// it.
	if b.Metadata == nil {
		b.Metadata = from.Metadata
	}
}

// EndCopy gives the copy into b its last status.
func (b *Blob) EndCopy(status string, at ticks.Ticks) {
	b.Copy.Status = status
	b.Copy.Completed = at
	b.Changed = at
}

// Permit checks that the caller has permissions on b. Blobs of flat accounts have no lists.
func (b *Blob) Permit(caller *posix.Caller, want posix.Perm) error {
	if b.Node == nil || b.Node.Access.Allows(caller, b.Node.Owner, b.Node.Group, want) {
		return nil
	}
	return ErrAccess
}
