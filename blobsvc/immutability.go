package blobsvc

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

const (
	untilHeader = "x-ms-immutability-policy-until-date"
	modeHeader  = "x-ms-immutability-policy-mode"
	holdHeader  = "x-ms-legal-hold"
)

// policyHeaders reads the headers of an immutability policy; until is 0 if there are none. sent says whether a mode was.
func (c *call) policyHeaders() (p state.Protection, sent bool, err error) {
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
func (c *call) newProtection() (p state.Protection, err error) {
	if p, _, err = c.policyHeaders(); err != nil {
		return p, err
	}
	if p.Hold, _, err = c.legalHold(); err == nil && p != (state.Protection{}) {
		err = c.identity.Holds(immutable) // beside what the write needs
	}
	return p, err
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
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	out, err := s.state.SetPolicy(&w, policy, modeSent && !policy.Locked)
	if err != nil {
		return err
	}
	c.sendProtection(&out)
	return c.Status(http.StatusOK)
}

// deleteImmutabilityPolicy: https://learn.microsoft.com/rest/api/storageservices/delete-blob-immutability-policy
func (s *Service) deleteImmutabilityPolicy(c *call) error {
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	if err := s.state.DeletePolicy(&w); err != nil {
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
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	if err := s.state.SetHold(&w, hold); err != nil {
		return err
	}
	c.Set(holdHeader, strconv.FormatBool(hold))
	return c.Status(http.StatusOK)
}

// sendProtection sets the headers about a policy and a hold.
func (c *call) sendProtection(p *state.Protection) {
	if p.Until != 0 {
		c.Set(untilHeader, p.Until.RFC1123())
		c.Set(modeHeader, p.Mode())
	}
	if p.Hold {
		c.Set(holdHeader, "true")
	}
}
