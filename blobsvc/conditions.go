package blobsvc

import (
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Preconditions are what a request demands of the blob it acts on: the conditional headers, tags, and a lease.
type Preconditions struct {
	wire.Conditions
	// LeaseID is x-ms-lease-id in canonical form, "" if absent.
	LeaseID string
	// Tags is x-ms-if-tags; nil if absent.
	Tags *TagQuery
}

func (c *call) preconditions() (p Preconditions, err error) {
	if p.Conditions, err = c.Conditions(); err != nil {
		return p, err
	}
	if p.LeaseID, err = c.leaseID("X-Ms-Lease-Id"); err != nil {
		return p, err
	}
	if s := c.Header("X-Ms-If-Tags"); s != "" {
		if err := c.holdsTags(); err != nil {
			return p, err
		}
		p.Tags, err = parseTagCondition(s)
	}
	return p, err
}

// leaseID reads a header with a lease id, a GUID in any of its usual forms.
func (c *call) leaseID(header string) (string, error) {
	s := c.Header(header)
	if s == "" {
		return "", nil
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return "", wire.InvalidHeader(header, s)
	}
	return id.String(), nil
}

// checkRead decides whether b may be read, and brings it up to date: conditional headers come first, then the lease.
func (p *Preconditions) checkRead(b *Blob, now ticks.Ticks) error {
	b.finishRehydration(now)
	if p.IfNoneMatch == "*" {
		return errUnsatisfiableCondition
	}
	if !p.Empty() {
		if err := p.CheckRead(b.Changed.HexETag(), b.Changed.Time()); err != nil {
			return err
		}
	}
	if err := p.checkTags(b); err != nil {
		return err
	}
	return b.Lease.checkRead(p.LeaseID, now, &blobLeaseErrors)
}

// checkConditions decides whether the conditional headers let b be written.
func (p *Preconditions) checkConditions(b *Blob) error {
	if p.IfNoneMatch == "*" {
		return errBlobAlreadyExists
	}
	if !p.Empty() {
		if err := p.CheckWrite(b.Changed.HexETag(), b.Changed.Time()); err != nil {
			return err
		}
	}
	return p.checkTags(b)
}

// checkWrite decides whether b may be written, and gives it the lease that it has after the write.
func (p *Preconditions) checkWrite(b *Blob, now ticks.Ticks) error {
	if b.Incremental.Source != "" {
		return errIncrementalDestination
	}
	return p.checkDelete(b, now)
}

// checkDelete is checkWrite for Delete Blob, which may remove what cannot be written.
func (p *Preconditions) checkDelete(b *Blob, now ticks.Ticks) error {
	b.finishRehydration(now)
	if b.Copy.Status == CopyPending {
		return errPendingCopy
	}
	// Azure answers LeaseIdMissing, not BlobAlreadyExists, to a write with If-None-Match: * where there is a lease.
	// https://github.com/Azure/Azurite/issues/2637
	if err := b.Lease.checkWrite(p.LeaseID, now, &blobLeaseErrors); err != nil {
		return err
	}
	if err := p.checkConditions(b); err != nil {
		return err
	}
	b.Lease = b.Lease.afterWrite(now)
	return nil
}

// checkLeasing is for Lease Blob, which judges the lease itself, and for what has no lease.
func (p *Preconditions) checkLeasing(b *Blob, _ ticks.Ticks) error { return p.checkConditions(b) }

// checkSnapshot is for Snapshot Blob. It needs no lease, for it does not change the blob; one that is named must be right.
func (p *Preconditions) checkSnapshot(b *Blob, now ticks.Ticks) error {
	b.finishRehydration(now)
	if b.Copy.Status == CopyPending {
		return errPendingCopy
	}
	if err := p.checkConditions(b); err != nil {
		return err
	}
	return b.Lease.checkRead(p.LeaseID, now, &blobLeaseErrors)
}

// checkTagging is for Set Blob Tags, which knows no condition but the one on tags.
func (p *Preconditions) checkTagging(b *Blob, now ticks.Ticks) error {
	if err := b.Lease.checkWrite(p.LeaseID, now, &blobLeaseErrors); err != nil {
		return err
	}
	return p.checkTags(b)
}

// checkTier is for Set Blob Tier, which knows no condition but the one on tags, and needs no lease; one that is named must
// be right.
func (p *Preconditions) checkTier(b *Blob, now ticks.Ticks) error {
	b.finishRehydration(now)
	if err := p.checkTags(b); err != nil {
		return err
	}
	return b.Lease.checkRead(p.LeaseID, now, &blobLeaseErrors)
}

// checkAbort is for Abort Copy Blob, which needs the lease and nothing else.
func (p *Preconditions) checkAbort(b *Blob, now ticks.Ticks) error {
	return b.Lease.checkWrite(p.LeaseID, now, &blobLeaseErrors)
}

// checkTags decides whether the condition on tags holds.
func (p *Preconditions) checkTags(b *Blob) error {
	if p.Tags != nil && !p.Tags.Matches(b.Tags) {
		return wire.ErrConditionNotMet
	}
	return nil
}

// checkCreate decides whether a blob that does not exist may be written: a demand on what is there fails.
func (p *Preconditions) checkCreate() error {
	if err := p.CheckCreate(); err != nil {
		return err
	}
	if p.Tags != nil {
		return wire.ErrConditionNotMet
	}
	if p.LeaseID != "" {
		return blobLeaseErrors.notPresent
	}
	return nil
}
