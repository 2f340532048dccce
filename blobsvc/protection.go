package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Protection is what keeps a blob from being changed or deleted: an immutability policy, a legal hold, or both.
// https://learn.microsoft.com/azure/storage/blobs/immutable-version-level-worm-policies
type Protection struct {
	// Until is the end of the immutability policy in whole seconds, 0 without one. A locked one can only be prolonged.
	Until  ticks.Ticks
	Locked bool
	Hold   bool
}

// The refusals of what is protected.
var (
	errImmutablePolicy = fail(http.StatusConflict, "BlobImmutableDueToPolicy", "This operation is not permitted as the blob is immutable due to a policy.")
	errImmutableHold   = fail(http.StatusConflict, "BlobImmutableDueToLegalHold", "This operation is not permitted as the blob is immutable due to one or more legal holds.")
)

// checkDeletable says whether what is protected may be deleted.
func (p *Protection) checkDeletable(now ticks.Ticks) error {
	switch {
	case p.Hold:
		return errImmutableHold
	case now < p.Until:
		return errImmutablePolicy
	}
	return nil
}

// checkChangeable says whether what is protected may be changed in place. A policy forbids that after its end, too.
func (p *Protection) checkChangeable() error {
	switch {
	case p.Hold:
		return errImmutableHold
	case p.Until != 0:
		return errImmutablePolicy
	}
	return nil
}

// Mode is the value of x-ms-immutability-policy-mode.
func (p *Protection) Mode() string {
	switch {
	case p.Until == 0:
		return ""
	case p.Locked:
		return "locked"
	}
	return "unlocked"
}
