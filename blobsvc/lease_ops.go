package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// leaseRequest is a parsed Lease Blob or Lease Container.
type leaseRequest struct {
	action       string
	id, proposed string
	// duration is in seconds, or infinite; period is in seconds, or breakPeriodDefault.
	duration, period int64
}

// leaseRequest reads x-ms-lease-action and the headers that it needs.
func (c *call) leaseRequest() (q leaseRequest, err error) {
	q.action = c.Header("X-Ms-Lease-Action")
	if q.id, err = c.leaseID("X-Ms-Lease-Id"); err != nil {
		return q, err
	}
	if q.proposed, err = c.leaseID("X-Ms-Proposed-Lease-Id"); err != nil {
		return q, err
	}
	needID := func() error {
		if q.id == "" {
			return wire.MissingHeader("x-ms-lease-id")
		}
		return nil
	}
	switch q.action {
	case "acquire":
		q.duration, err = c.leaseDuration()
		if q.proposed == "" {
			q.proposed = q.id // an acquire that names the lease it holds acquires it again
		}
		if q.proposed == "" {
			q.proposed = uuid.NewString()
		}
	case "renew", "release":
		err = needID()
	case "change":
		if err = needID(); err == nil && q.proposed == "" {
			err = wire.MissingHeader("x-ms-proposed-lease-id")
		}
	case "break":
		q.period = BreakPeriodDefault
		if text := c.Header("X-Ms-Lease-Break-Period"); text != "" {
			var ok bool
			if q.period, ok = parseOffset(text); !ok || q.period > 60 {
				err = wire.InvalidHeader("x-ms-lease-break-period", text)
			}
		}
	case "":
		err = wire.MissingHeader("x-ms-lease-action")
	default:
		err = wire.InvalidHeader("x-ms-lease-action", q.action)
	}
	return q, err
}

// leaseDuration reads x-ms-lease-duration: -1, or 15 to 60 seconds.
func (c *call) leaseDuration() (int64, error) {
	text := c.Header("X-Ms-Lease-Duration")
	if text == "" { // before 2012-02-12 there was one duration
		if c.version() < wire.V20120212 {
			return 60, nil
		}
		return 0, wire.MissingHeader("x-ms-lease-duration")
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n != LeaseInfinite && (n < 15 || n > 60) {
		return 0, wire.InvalidHeader("x-ms-lease-duration", text)
	}
	return n, nil
}

// apply makes the move that q asks for. remaining is the x-ms-lease-time of a break.
func (q *leaseRequest) apply(l Lease, now ticks.Ticks) (next Lease, remaining int64, err error) {
	switch q.action {
	case "acquire":
		next, err = l.acquire(q.proposed, q.duration, now)
	case "renew":
		next, err = l.renew(q.id, now)
	case "change":
		next, err = l.change(q.id, q.proposed, now)
	case "release":
		next, err = l.release(q.id, now)
	case "break":
		next, remaining, err = l.breakIn(q.period, now)
	}
	return next, remaining, err
}

// answerLease sends what a lease operation came to.
func (c *call) answerLease(q *leaseRequest, l Lease, remaining int64, changed ticks.Ticks) error {
	c.sendVersion(changed)
	switch q.action {
	case "acquire":
		c.Set("x-ms-lease-id", l.ID)
		return c.Status(http.StatusCreated)
	case "renew", "change":
		c.Set("x-ms-lease-id", l.ID)
	case "break":
		c.SetInt("x-ms-lease-time", remaining)
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}

// leaseBlob: https://learn.microsoft.com/rest/api/storageservices/lease-blob
func (s *Service) leaseBlob(c *call) error {
	q, err := c.leaseRequest()
	if err != nil {
		return err
	}
	var out Lease
	var remaining int64
	var changed ticks.Ticks
	err = s.updateBase(c, (*Preconditions).checkLeasing, func(tx *store.Tx, gen uint64, b *Blob) (err error) {
		if b.Lease, remaining, err = q.apply(b.Lease, c.now()); err != nil {
			return err
		}
		out, changed = b.Lease, b.Changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	return c.answerLease(&q, out, remaining, changed)
}

// leaseContainer: https://learn.microsoft.com/rest/api/storageservices/lease-container
func (s *Service) leaseContainer(c *call) error {
	q, err := c.leaseRequest()
	if err != nil {
		return err
	}
	conditions, err := c.Conditions()
	if err != nil {
		return err
	}
	var out Lease
	var remaining int64
	var changed ticks.Ticks
	err = s.db.Update(func(tx *store.Tx) error {
		rec, err := getContainer(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		if err := conditions.CheckWrite(rec.Changed.HexETag(), rec.Changed.Time()); err != nil {
			return err
		}
		if rec.Lease, remaining, err = q.apply(rec.Lease, c.now()); err != nil {
			return err
		}
		out, changed = rec.Lease, rec.Changed
		putContainer(tx, c.Account, c.container, &rec)
		return nil
	})
	if err != nil {
		return err
	}
	return c.answerLease(&q, out, remaining, changed)
}
