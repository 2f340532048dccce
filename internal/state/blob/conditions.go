package blob

import (
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Conditions are the conditional headers of HTTP as Azure evaluates them. Zero fields are absent headers.
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
type Conditions struct {
	IfMatch, IfNoneMatch               string
	IfModifiedSince, IfUnmodifiedSince time.Time
}

// empty reports whether no condition was given.
func (c *Conditions) empty() bool {
	return c.IfMatch == "" && c.IfNoneMatch == "" && c.IfModifiedSince.IsZero() && c.IfUnmodifiedSince.IsZero()
}

// checkRead evaluates c for a read of a resource that exists and was changed at a time. It returns ErrConditionNotMet
// or errNotModified. Where an entity tag and a date of the same direction are both given, the tag decides.
func (c *Conditions) checkRead(changed ticks.Ticks) error {
	if c.empty() {
		return nil
	}
	return c.Check(changed.HexETag(), changed.Time())
}

// Check is checkRead for a resource elsewhere, whose entity tag may have another form.
func (c *Conditions) Check(etag string, modified time.Time) error {
	return c.check(etag, modified, ErrNotModified)
}

// checkWrite is checkRead for a write. It returns ErrConditionNotMet.
func (c *Conditions) checkWrite(changed ticks.Ticks) error {
	if c.empty() {
		return nil
	}
	return c.check(changed.HexETag(), changed.Time(), ErrConditionNotMet)
}

// checkCreate evaluates c for a write to a resource that does not exist: only a demand that it exist can fail.
func (c *Conditions) checkCreate() error {
	if c.IfMatch != "" {
		return ErrConditionNotMet
	}
	return nil
}

func (c *Conditions) check(etag string, modified time.Time, unchanged error) error {
	modified = modified.Truncate(time.Second) // the precision of the headers
	// Each switch takes one direction: the entity tag decides, and the date counts only without one. A request may have
	// conditions of both directions, which must all hold.
	switch {
	case c.IfMatch != "":
		if !matchETag(c.IfMatch, etag) {
			return ErrConditionNotMet
		}
	case !c.IfUnmodifiedSince.IsZero():
		if modified.After(c.IfUnmodifiedSince) {
			return ErrConditionNotMet
		}
	}
	switch {
	case c.IfNoneMatch != "":
		if matchETag(c.IfNoneMatch, etag) {
			return unchanged
		}
	case !c.IfModifiedSince.IsZero():
		if !modified.After(c.IfModifiedSince) {
			return unchanged
		}
	}
	return nil
}

// matchETag reports whether the header's list has etag or "*". Quotes may be missing, as some clients send them.
func matchETag(list, etag string) bool {
	if list == etag {
		return true
	}
	etag = strings.Trim(etag, `"`)
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		item = strings.TrimSpace(item)
		if item == "*" || strings.Trim(item, `"`) == etag {
			return true
		}
	}
	return false
}

// Preconditions are the conditions of a request on its blob: the conditional headers, tags, and a lease.
type Preconditions struct {
	Conditions
	// LeaseID is in canonical form, "" if absent.
	LeaseID string
	// Tags is a condition on the tags; nil if absent.
	Tags *TagQuery
	// TierModifiedSince and TierUnmodifiedSince are conditions of Delete Blob on when the access tier was set; zero if
	// absent.
	TierModifiedSince, TierUnmodifiedSince time.Time
}

// checkTierChange evaluates the conditions on when the tier of b was set: when b was created, if it was not set after
// that.
func (p *Preconditions) checkTierChange(b *record.Blob) error {
	at := max(b.TierChanged, b.Created).Time().Truncate(time.Second) // the precision of the headers
	if !p.TierModifiedSince.IsZero() && !at.After(p.TierModifiedSince) || !p.TierUnmodifiedSince.IsZero() &&
		at.After(p.TierUnmodifiedSince) {
		return ErrTierCondition
	}
	return nil
}

// blobCheck checks an operation's preconditions before it changes a blob: one of the methods below. It brings the blob
// up to date.
type blobCheck func(p *Preconditions, b *record.Blob, now ticks.Ticks) error

// checkRead decides whether b may be read. Conditional headers come first, then the lease.
func (p *Preconditions) checkRead(b *record.Blob, now ticks.Ticks) error {
	b.FinishRehydration(now)
	if p.IfNoneMatch == "*" {
		return ErrUnsatisfiable
	}
	if err := p.Conditions.checkRead(b.Changed); err != nil {
		return err
	}
	if err := p.checkTags(b); err != nil {
		return err
	}
	return b.Lease.CheckRead(p.LeaseID, now, &lease.OfBlob)
}

// checkConditions decides whether the conditional headers let b be written.
func (p *Preconditions) checkConditions(b *record.Blob) error {
	if p.IfNoneMatch == "*" {
		return ErrBlobExists
	}
	if err := p.Conditions.checkWrite(b.Changed); err != nil {
		return err
	}
	return p.checkTags(b)
}

// checkWrite decides whether b may be written, and gives it the lease that it has after the write.
func (p *Preconditions) checkWrite(b *record.Blob, now ticks.Ticks) error {
	if b.Incremental.Source != "" {
		return ErrIncremental
	}
	return p.checkDelete(b, now)
}

// checkOverwrite is checkWrite for operations that replace the whole blob. With a lease ID the lease decides alone
// whether a blob that exists may be replaced: Azure ignores If-None-Match: * then.
func (p *Preconditions) checkOverwrite(b *record.Blob, now ticks.Ticks) error {
	if p.LeaseID == "" || p.IfNoneMatch != "*" {
		return p.checkWrite(b, now)
	}
	leased := *p
	leased.IfNoneMatch = ""
	return leased.checkWrite(b, now)
}

// checkDelete is checkWrite for Delete Blob, which may remove the destination of incremental copies.
func (p *Preconditions) checkDelete(b *record.Blob, now ticks.Ticks) error {
	b.FinishRehydration(now)
	if b.Copy.Status == record.CopyPending {
		return ErrCopyPending
	}
	// Azure answers LeaseIdMissing, not BlobAlreadyExists, to a write with If-None-Match: * where there is a lease.
	// https://github.com/Azure/Azurite/issues/2637
	if err := b.Lease.CheckWrite(p.LeaseID, now, &lease.OfBlob); err != nil {
		return err
	}
	if err := p.checkConditions(b); err != nil {
		return err
	}
	b.Lease = b.Lease.AfterWrite(now)
	return nil
}

// checkLeasing is for Lease Blob, which judges the lease itself, and for records without a lease.
func (p *Preconditions) checkLeasing(b *record.Blob, _ ticks.Ticks) error {
	return p.checkConditions(b)
}

// checkSnapshot is for Snapshot Blob. It needs no lease, for it does not change the blob; a lease ID that is sent must
// be right.
func (p *Preconditions) checkSnapshot(b *record.Blob, now ticks.Ticks) error {
	b.FinishRehydration(now)
	if b.Copy.Status == record.CopyPending {
		return ErrCopyPending
	}
	if err := p.checkConditions(b); err != nil {
		return err
	}
	return b.Lease.CheckRead(p.LeaseID, now, &lease.OfBlob)
}

// checkTagging is for Set Blob Tags.
func (p *Preconditions) checkTagging(b *record.Blob, now ticks.Ticks) error {
	if err := b.Lease.CheckWrite(p.LeaseID, now, &lease.OfBlob); err != nil {
		return err
	}
	if err := p.Conditions.checkWrite(b.Changed); err != nil {
		return err
	}
	return p.checkTags(b)
}

// checkTier is for Set Blob Tier, which has no condition but the one on tags, and needs no lease; a lease ID that is
// sent must be right.
func (p *Preconditions) checkTier(b *record.Blob, now ticks.Ticks) error {
	b.FinishRehydration(now)
	if err := p.checkTags(b); err != nil {
		return err
	}
	return b.Lease.CheckRead(p.LeaseID, now, &lease.OfBlob)
}

// checkAbort is for Abort Copy Blob, which needs the lease and nothing else.
func (p *Preconditions) checkAbort(b *record.Blob, now ticks.Ticks) error {
	return b.Lease.CheckWrite(p.LeaseID, now, &lease.OfBlob)
}

// checkTags decides whether the condition on tags holds.
func (p *Preconditions) checkTags(b *record.Blob) error {
	if p.Tags != nil && !p.Tags.Matches(b.Tags) {
		return ErrTagCondition
	}
	return nil
}

// checkCreate decides whether a blob that does not exist may be written: a demand on the blob fails.
func (p *Preconditions) checkCreate() error {
	if err := p.Conditions.checkCreate(); err != nil {
		return err
	}
	if p.Tags != nil {
		return ErrConditionNotMet
	}
	if p.LeaseID != "" {
		return lease.ErrBlobNoLease
	}
	return nil
}
