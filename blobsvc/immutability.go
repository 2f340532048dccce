package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

const (
	untilHeader = "x-ms-immutability-policy-until-date"
	modeHeader  = "x-ms-immutability-policy-mode"
	holdHeader  = "x-ms-legal-hold"
)

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
