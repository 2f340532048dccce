package blobsvc

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The refusals of immutability policies and legal holds themselves.
var (
	// errPolicyLocked: a locked policy is deleted.
	errPolicyLocked = fail(http.StatusConflict, "ImmutabilityPolicyDeleteOnLockedPolicy", "The immutability policy is locked and cannot be deleted.")
	// errNotImmutable: the container's blobs cannot have any. Azure's code for this is not documented.
	errNotImmutable = fail(http.StatusConflict, "ImmutableStorageWithVersioningNotEnabled", "The container is not enabled for immutable storage with versioning.")
	// errContainerImmutable: a container that is enabled for them is deleted before it is empty. Azure leaves the deletion of an
	// empty one to the management of accounts, which there is none of here.
	errContainerImmutable = fail(http.StatusConflict, "ContainerImmutableStorageWithVersioningEnabled", "The requested operation is not allowed as the container has a immutable storage with versioning enabled.")
)

const (
	untilHeader = "x-ms-immutability-policy-until-date"
	modeHeader  = "x-ms-immutability-policy-mode"
	holdHeader  = "x-ms-legal-hold"
)

// policyHeaders reads the headers of an immutability policy; until is 0 if there are none. sent says whether a mode was.
func (c *call) policyHeaders() (p Protection, sent bool, err error) {
	mode := c.Header("X-Ms-Immutability-Policy-Mode")
	switch {
	case mode == "", strings.EqualFold(mode, "unlocked"):
	case strings.EqualFold(mode, "locked"):
		p.Locked = true
	default:
		return p, false, wire.InvalidHeader(modeHeader, mode)
	}
	text := c.Header("X-Ms-Immutability-Policy-Until-Date")
	if text == "" {
		if mode != "" {
			err = wire.MissingHeader(untilHeader)
		}
		return p, false, err
	}
	until, err := wire.ParseRFC1123(text)
	if err != nil || !until.After(c.Now) {
		return p, false, wire.InvalidHeader(untilHeader, text)
	}
	p.Until = ticks.Of(until)
	return p, mode != "", nil
}

// legalHold reads x-ms-legal-hold; sent says whether it was there.
func (c *call) legalHold() (hold, sent bool, err error) {
	text := c.Header("X-Ms-Legal-Hold")
	if text == "" {
		return false, false, nil
	}
	switch strings.ToLower(text) {
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	}
	return false, false, wire.InvalidHeader(holdHeader, text)
}

// newProtection reads what the operations that write a blob give it.
func (c *call) newProtection() (p Protection, err error) {
	if p, _, err = c.policyHeaders(); err != nil {
		return p, err
	}
	if p.Hold, _, err = c.legalHold(); err == nil && p != (Protection{}) {
		err = c.identity.Holds(immutable) // beside what the write needs
	}
	return p, err
}

// mayProtect says whether the blobs of the container can have policies and holds.
func (c *call) mayProtect(tx *store.Tx) error {
	rec, err := getContainer(tx, c.Account, c.container)
	if err == nil && !rec.Immutable {
		err = errNotImmutable
	}
	return err
}

// protect changes what protects the blob, snapshot or version that the request names. It is no change of the blob: the entity
// tag stays, and no lease is asked for.
func (s *Service) protect(c *call, change func(p *Protection) error) error {
	at, err := c.address()
	if err != nil {
		return err
	}
	return s.updateAt(c, at, (*Preconditions).checkLeasing, func(tx *store.Tx, gen, slot uint64, b *Blob) error {
		if err := c.mayProtect(tx); err != nil {
			return err
		}
		if err := change(&b.Protection); err != nil {
			return err
		}
		putBlob(tx, gen, c.blob, slot, b)
		return nil
	})
}

// setImmutabilityPolicy: https://learn.microsoft.com/rest/api/storageservices/set-blob-immutability-policy
// A locked policy stays locked and can only be prolonged.
func (s *Service) setImmutabilityPolicy(c *call) error {
	policy, modeSent, err := c.policyHeaders()
	if err != nil {
		return err
	}
	if policy.Until == 0 {
		return wire.MissingHeader(untilHeader)
	}
	var out Protection
	err = s.protect(c, func(p *Protection) error {
		if p.Locked {
			if modeSent && !policy.Locked || policy.Until < p.Until {
				return errImmutablePolicy
			}
			p.Until = policy.Until
		} else {
			p.Until, p.Locked = policy.Until, policy.Locked
		}
		out = *p
		return nil
	})
	if err != nil {
		return err
	}
	c.sendProtection(&out)
	return c.Status(http.StatusOK)
}

// deleteImmutabilityPolicy: https://learn.microsoft.com/rest/api/storageservices/delete-blob-immutability-policy
func (s *Service) deleteImmutabilityPolicy(c *call) error {
	err := s.protect(c, func(p *Protection) error {
		if p.Locked {
			return errPolicyLocked
		}
		p.Until = 0
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// setLegalHold: https://learn.microsoft.com/rest/api/storageservices/set-blob-legal-hold
func (s *Service) setLegalHold(c *call) error {
	hold, sent, err := c.legalHold()
	if err != nil {
		return err
	}
	if !sent {
		return wire.MissingHeader(holdHeader)
	}
	err = s.protect(c, func(p *Protection) error {
		p.Hold = hold
		return nil
	})
	if err != nil {
		return err
	}
	c.Set(holdHeader, strconv.FormatBool(hold))
	return c.Status(http.StatusOK)
}

// sendProtection sets the headers about a policy and a hold.
func (c *call) sendProtection(p *Protection) {
	if p.Until != 0 {
		c.Set(untilHeader, p.Until.RFC1123())
		c.Set(modeHeader, p.Mode())
	}
	if p.Hold {
		c.Set(holdHeader, "true")
	}
}

// empty reports whether a container has nothing that is not soft-deleted.
func empty(tx *store.Tx, gen uint64) (bool, error) {
	scope := generationPrefix(gen)
	cur := tx.Cursor(blobsBucket)
	var b Blob
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		if err := decodeBlobHead(v, &b); err != nil || b.Deleted == 0 {
			return false, err
		}
	}
	return true, nil
}
