package lakesvc

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// position reads the parameter of that name.
func position(c *call) (int64, error) {
	s := c.Query.Get("position")
	if s == "" {
		return 0, wire.MissingQuery("position")
	}
	n, ok := endpoint.ParseOffset(s)
	if !ok {
		return 0, endpoint.InvalidQuery("position", s)
	}
	return n, nil
}

// pathLease reads what an append or a flush does with the lease. Auto-renewal and release act on the lease that the
// request names.
func pathLease(c *call) (q state.PathLease, err error) {
	action, err := c.Headers().Word("X-Ms-Lease-Action", "acquire", "auto-renew", "release", "acquire-release")
	if err != nil || action == "" {
		return q, err
	}
	q.Acquire = strings.HasPrefix(action, "acquire")
	q.Renew = action == "auto-renew"
	q.Release = strings.HasSuffix(action, "release")
	if !q.Acquire {
		if c.Header("X-Ms-Lease-Id") == "" {
			return q, wire.MissingHeader("x-ms-lease-id")
		}
		return q, nil
	}
	q.Proposed, q.Duration, err = c.ProposedLease()
	return q, err
}

// maxAppend is the size in bytes of the largest append: that of the largest block.
const maxAppend = 4000 * endpoint.MiB

// appendPath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func (s *Service) appendPath(c *call) error {
	n, err := c.ContentLength(maxAppend)
	if err != nil {
		return err
	}
	position, err := position(c)
	if err != nil {
		return err
	}
	flush, err := boolQuery(c.Query, "flush")
	if err != nil {
		return err
	}
	lease, err := pathLease(c)
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.InvalidHeader("Content-Length", "0")
	}
	w := c.NewUnconditionalWrite()
	if w.If.LeaseID, err = endpoint.LeaseID(c.Headers(), "X-Ms-Lease-Id"); err != nil {
		return err
	}
	// The append makes the same checks in its transaction. This one spares the client a long upload that would be
	// refused.
	if n >= endpoint.EarlyCheck {
		if err := s.State.Paths.CheckAppend(&w, lease); err != nil {
			return err
		}
	}
	up, err := c.Receive(&w, n, endpoint.Reception{Existing: true})
	if err != nil {
		return err
	}
	defer up.Close()
	// An append with a flush is one transaction: either both have happened or neither.
	if flush {
		b, err := s.State.Paths.Flush(&w,
			&state.Flush{Position: position + n, Retain: true, Lease: lease, Append: up, AppendAt: position})
		if err != nil {
			return err
		}
		c.SendChanged(b.Changed)
		c.SendEncrypted(b.Encryption)
	} else {
		if lease.Release {
			return wire.InvalidHeader("x-ms-lease-action", c.Header("X-Ms-Lease-Action")) // a lease is released with a flush
		}
		result, err := s.State.Paths.Append(&w, position, up, lease)
		if err != nil {
			return err
		}
		c.SendEncrypted(result.Encryption)
	}
	if lease.Renew {
		c.Set("x-ms-lease-renewed", "true")
	}
	if c.HasHeader("Content-Md5") || c.HasHeader("X-Ms-Content-Crc64") || c.EffectiveVersion() >= endpoint.V20210410 {
		c.SendHashes(up)
	}
	return c.Status(http.StatusAccepted)
}

// flushPath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func (s *Service) flushPath(c *call) error {
	if err := noContent(c); err != nil {
		return err
	}
	position, err := position(c)
	if err != nil {
		return err
	}
	f := state.Flush{Position: position}
	if f.Retain, err = boolQuery(c.Query, "retainuncommitteddata"); err != nil {
		return err
	}
	closes, err := boolQuery(c.Query, "close") // of events alone: a file has no open state
	if err != nil {
		return err
	}
	if f.Lease, err = pathLease(c); err != nil {
		return err
	}
	if f.Headers, err = fileHeaders(c.Headers()); err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	if closes {
		w.Origin.Operation = eventlog.FlushWithClose
	}
	if w.If.IfNoneMatch == "*" {
		return wire.ErrNotModified // recorded
	}
	b, err := s.State.Paths.Flush(&w, &f)
	if err != nil {
		return err
	}
	c.SendChanged(b.Changed)
	c.SendEncrypted(b.Encryption)
	// A flush writes no content. Recorded from version 2020-02-10 on, and of earlier ones since June 2020; before that
	// these had "true", as most recordings of them show.
	if c.EffectiveVersion() >= endpoint.V20200210 && c.Key == nil {
		c.Set("x-ms-request-server-encrypted", "false")
	}
	if f.Lease.Renew {
		c.Set("x-ms-lease-renewed", "true")
	}
	return c.Status(http.StatusOK)
}

// readPath: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/read
func (s *Service) readPath(c *call) error {
	q, err := endpoint.ContentRequest(c.Headers())
	if err != nil {
		return err
	}
	var b record.Blob
	body, err := c.OpenContent(&q, &b)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	sendFullPath(c, &b, b.Metadata)
	return c.SendContent(c.SendRange(&q, &b, &body, "x-ms-content-md5"), body.Reader)
}
