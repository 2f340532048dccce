package blobsvc

import (
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// archiveTier is the tier whose blobs cannot be read until they are moved to another.
const archiveTier = "Archive"

// parseTier reads an access tier of block blobs, in any case.
func parseTier(s string) (string, bool) {
	for _, tier := range [...]string{"Hot", "Cool", "Cold", archiveTier} {
		if strings.EqualFold(s, tier) {
			return tier, true
		}
	}
	return "", false
}

// newTier reads x-ms-access-tier of an operation that creates a blob. Page blob tiers exist on premium accounts alone.
func (c *call) newTier(kind blobKind) (string, error) {
	s := c.Header("X-Ms-Access-Tier")
	if s == "" {
		return "", nil
	}
	tier, ok := parseTier(s)
	if !ok {
		return "", wire.InvalidHeader("x-ms-access-tier", s)
	}
	if kind != blockBlob {
		return "", errInvalidBlobTier
	}
	return tier, nil
}

// rehydrateAfter is how long moving a blob out of the archive takes. On Azure it is hours.
const rehydrateAfter = time.Minute

// settle brings about what the passing of time has: a rehydration that has ended.
func (b *blobRecord) settle(now ticks.Ticks) {
	if b.rehydrateTo != "" && now >= b.tierChanged+ticks.Ticks(rehydrateAfter/100) {
		b.tier, b.rehydrateTo = b.rehydrateTo, ""
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
	err = s.updateAt(c, at, (*preconditions).checkTier, func(tx *store.Tx, gen, slot uint64, b *blobRecord) error {
		status = http.StatusOK
		if b.kind != blockBlob {
			return errInvalidBlobTier
		}
		if b.rehydrateTo != "" && (tier == archiveTier || tier != b.rehydrateTo) {
			return errBlobBeingRehydrated
		}
		if slot != baseSlot && b.tier == archiveTier && tier != archiveTier {
			return errBlobArchived // snapshots and versions leave the archive as copies alone
		}
		what := eventTier
		c.before.was(b, slot)
		if b.tier == archiveTier && tier != archiveTier {
			b.rehydrateTo, c.before.rehydrating = tier, tier
			what, status = eventStarted, http.StatusAccepted
		} else {
			b.tier = tier
		}
		b.tierChanged = c.now()
		putBlob(tx, gen, c.blob, slot, b)
		s.note(tx, c, what, slot, b)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(status)
}
