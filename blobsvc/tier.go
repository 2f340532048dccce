package blobsvc

import (
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// ArchiveTier is the tier whose blobs cannot be read until they are moved to another.
const ArchiveTier = "Archive"

// parseTier reads an access tier of block blobs, in any case.
func parseTier(s string) (string, bool) {
	for _, tier := range [...]string{"Hot", "Cool", "Cold", ArchiveTier} {
		if strings.EqualFold(s, tier) {
			return tier, true
		}
	}
	return "", false
}

// newTier reads x-ms-access-tier of an operation that creates a blob. Page blob tiers exist on premium accounts alone.
func (c *call) newTier(kind Kind) (string, error) {
	s := c.Header("X-Ms-Access-Tier")
	if s == "" {
		return "", nil
	}
	tier, ok := parseTier(s)
	if !ok {
		return "", wire.InvalidHeader("x-ms-access-tier", s)
	}
	if kind != BlockBlob {
		return "", errInvalidBlobTier
	}
	return tier, nil
}

// rehydrateAfter is how long moving a blob out of the archive takes. On Azure it is hours.
const rehydrateAfter = time.Minute

// finishRehydration brings about what the passing of time has: a rehydration that has ended.
func (b *Blob) finishRehydration(now ticks.Ticks) {
	if b.RehydrateTo != "" && now >= b.TierChanged+ticks.Ticks(rehydrateAfter/100) {
		b.Tier, b.RehydrateTo = b.RehydrateTo, ""
	}
}

// setBlobTier: https://learn.microsoft.com/rest/api/storageservices/set-blob-tier
// Content does not move with the tier.
func (s *Service) setBlobTier(c *call) error {
	text := c.Header("X-Ms-Access-Tier")
	if text == "" {
		return wire.MissingHeader("x-ms-access-tier")
	}
	tier, ok := parseTier(text)
	if !ok {
		return wire.InvalidHeader("x-ms-access-tier", text)
	}
	switch priority := c.Header("X-Ms-Rehydrate-Priority"); priority {
	case "", "Standard", "High":
	default:
		return wire.InvalidHeader("x-ms-rehydrate-priority", priority)
	}
	at, err := c.address()
	if err != nil {
		return err
	}
	status := http.StatusOK
	err = s.updateAt(c, at, (*Preconditions).checkTier, func(tx *store.Tx, gen, slot uint64, b *Blob) error {
		status = http.StatusOK
		if b.Kind != BlockBlob {
			return errInvalidBlobTier
		}
		if b.RehydrateTo != "" && (tier == ArchiveTier || tier != b.RehydrateTo) {
			return errBlobBeingRehydrated
		}
		if slot != baseSlot && b.Tier == ArchiveTier && tier != ArchiveTier {
			return errBlobArchived // snapshots and versions leave the archive as copies alone
		}
		what := eventTier
		c.before.was(b, slot)
		if b.Tier == ArchiveTier && tier != ArchiveTier {
			b.RehydrateTo, c.before.rehydrating = tier, tier
			what, status = eventStarted, http.StatusAccepted
		} else {
			b.Tier = tier
		}
		b.TierChanged = c.now()
		putBlob(tx, gen, c.blob, slot, b)
		s.note(tx, c, what, slot, b)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(status)
}
