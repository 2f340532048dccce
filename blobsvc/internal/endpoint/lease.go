package endpoint

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
)

// leaseActions are the values of x-ms-lease-action.
var leaseActions = map[string]lease.Action{"acquire": lease.Acquire, "renew": lease.Renew,
	"change": lease.Change, "release": lease.Release, "break": lease.Break}

// LeaseRequest reads x-ms-lease-action and the headers that it needs. on is what is leased: delete permission allows to
// break a lease, and nothing else. https://learn.microsoft.com/rest/api/storageservices/create-account-sas#blob-service
func (c *Call) LeaseRequest(on auth.ResourceType) (q lease.Request, err error) {
	action, err := c.Headers().NeedWord("X-Ms-Lease-Action", "acquire", "renew", "change", "release", "break")
	if err != nil {
		return q, err
	}
	q.Action = leaseActions[action]
	if q.Action != lease.Break {
		if err := c.Holds(auth.Need{On: on, Any: "w"}); err != nil {
			return q, err
		}
	}
	if q.ID, err = LeaseID(c.Headers(), "X-Ms-Lease-Id"); err != nil {
		return q, err
	}
	if q.Proposed, err = LeaseID(c.Headers(), "X-Ms-Proposed-Lease-Id"); err != nil {
		return q, err
	}
	needID := func() error {
		if q.ID == "" {
			return wire.MissingHeader("x-ms-lease-id")
		}
		return nil
	}
	switch action {
	case "acquire":
		q.Duration, err = c.leaseDuration()
		if q.Proposed == "" {
			q.Proposed = q.ID // an acquire that names the lease it holds acquires it again
		}
		if q.Proposed == "" {
			q.Proposed = uuid.NewString()
		}
	case "renew", "release":
		err = needID()
	case "change":
		if err = needID(); err == nil && q.Proposed == "" {
			err = wire.MissingHeader("x-ms-proposed-lease-id")
		}
	case "break":
		q.Period = lease.BreakPeriodDefault
		if text := c.Header("X-Ms-Lease-Break-Period"); text != "" {
			var ok bool
			if q.Period, ok = ParseOffset(text); !ok || q.Period > 60 {
				err = wire.InvalidHeader("x-ms-lease-break-period", text)
			}
		}
	}
	return q, err
}

// ProposedLease reads x-ms-proposed-lease-id, which must be there, and x-ms-lease-duration.
func (c *Call) ProposedLease() (id string, duration int64, err error) {
	if id, err = LeaseID(c.Headers(), "X-Ms-Proposed-Lease-Id"); err != nil {
		return "", 0, err
	}
	if id == "" {
		return "", 0, wire.MissingHeader("x-ms-proposed-lease-id")
	}
	duration, err = c.leaseDuration()
	return id, duration, err
}

// leaseDuration reads x-ms-lease-duration: -1, or 15 to 60 seconds.
func (c *Call) leaseDuration() (int64, error) {
	text := c.Header("X-Ms-Lease-Duration")
	if text == "" { // before 2012-02-12 there was one duration
		if c.EffectiveVersion() < wire.V20120212 {
			return 60, nil
		}
		return 0, wire.MissingHeader("x-ms-lease-duration")
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n != lease.Infinite && (n < 15 || n > 60) {
		return 0, wire.InvalidHeader("x-ms-lease-duration", text)
	}
	return n, nil
}

// AnswerLease answers an operation on a lease.
func (c *Call) AnswerLease(action lease.Action, r *state.LeaseResult) error {
	c.SendChanged(r.Changed)
	switch action {
	case lease.Acquire:
		c.Set("x-ms-lease-id", r.Lease.ID)
		return c.Status(http.StatusCreated)
	case lease.Renew, lease.Change:
		c.Set("x-ms-lease-id", r.Lease.ID)
	case lease.Break:
		c.SetInt("x-ms-lease-time", r.Remaining)
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}

// LeaseError returns the error of an operation on a lease; its text names the kind of resource, blob or container.
func LeaseError(err error, kind string) error {
	switch {
	case errors.Is(err, lease.ErrNoLease):
		return Fail(http.StatusConflict, "LeaseNotPresentWithLeaseOperation", "There is currently no lease on the "+kind+".")
	case errors.Is(err, lease.ErrID):
		return Fail(http.StatusConflict, "LeaseIdMismatchWithLeaseOperation",
			"The lease ID specified did not match the lease ID for the "+kind+".")
	}
	return err
}

// LeaseBlob: https://learn.microsoft.com/rest/api/storageservices/lease-blob
func (c *Call) LeaseBlob() error {
	q, err := c.LeaseRequest(auth.OnObject)
	if err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	result, err := c.State.Blobs.Lease(&w, &q)
	if err != nil {
		return LeaseError(err, "blob")
	}
	return c.AnswerLease(q.Action, &result)
}
