package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// protection is what keeps a blob from being changed or deleted: an immutability policy, a legal hold, or both.
// https://learn.microsoft.com/azure/storage/blobs/immutable-version-level-worm-policies
type protection struct {
	// until is the end of the immutability policy in whole seconds, 0 without one. A locked one can only be prolonged.
	until  ticks.Ticks
	locked bool
	hold   bool
}

// The refusals of what is protected.
var (
	errImmutablePolicy = fail(http.StatusConflict, "BlobImmutableDueToPolicy", "This operation is not permitted as the blob is immutable due to a policy.")
	errImmutableHold   = fail(http.StatusConflict, "BlobImmutableDueToLegalHold", "This operation is not permitted as the blob is immutable due to one or more legal holds.")
)

// mayGo says whether what is protected may be deleted.
func (p *protection) mayGo(now ticks.Ticks) error {
	switch {
	case p.hold:
		return errImmutableHold
	case now < p.until:
		return errImmutablePolicy
	}
	return nil
}

// mayChange says whether what is protected may be changed in place. A policy forbids that after its end, too.
func (p *protection) mayChange() error {
	switch {
	case p.hold:
		return errImmutableHold
	case p.until != 0:
		return errImmutablePolicy
	}
	return nil
}

// mode is the value of x-ms-immutability-policy-mode.
func (p *protection) mode() string {
	switch {
	case p.until == 0:
		return ""
	case p.locked:
		return "locked"
	}
	return "unlocked"
}
