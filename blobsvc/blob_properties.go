package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// setBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata
func (s *Service) setBlobMetadata(c *call) error {
	metadata, err := metadata(c.Metadata())
	if err != nil {
		return err
	}
	if s.storage.Hierarchical(c.Account) {
		metadata, _ = endpoint.WithoutFolderMark(metadata)
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	result, err := s.state.Blobs.SetMetadata(&w, metadata)
	if err != nil {
		return err
	}
	sendWritten(c, &result)
	return c.Status(http.StatusOK)
}

// sequenceAction reads what Set Blob Properties does to the sequence number of a page blob.
func sequenceAction(c *call) (a state.SequenceAction, err error) {
	if a.Kind, err = c.Headers().Word("X-Ms-Sequence-Number-Action", "increment", "max", "update"); err != nil {
		return a, err
	}
	number := c.Header("X-Ms-Blob-Sequence-Number")
	switch a.Kind {
	case "":
		if number != "" {
			return a, wire.MissingHeader("x-ms-sequence-number-action")
		}
	case "increment":
		if number != "" {
			return a, wire.InvalidHeader("x-ms-blob-sequence-number", number)
		}
	case "max", "update":
		if number == "" {
			return a, wire.MissingHeader("x-ms-blob-sequence-number")
		}
		var ok bool
		if a.Number, ok = endpoint.ParseOffset(number); !ok {
			return a, wire.InvalidHeader("x-ms-blob-sequence-number", number)
		}
	}
	return a, nil
}

// setBlobProperties: https://learn.microsoft.com/rest/api/storageservices/set-blob-properties
// The headers are replaced as a whole, except when the request only resizes a page blob or sets its sequence number.
func (s *Service) setBlobProperties(c *call) error {
	p := state.Properties{Size: -1}
	var err error
	if p.Headers, err = contentHeaders(c.Headers(), false); err != nil {
		return err
	}
	if p.Sequence, err = sequenceAction(c); err != nil {
		return err
	}
	if text := c.Header("X-Ms-Blob-Content-Length"); text != "" {
		if p.Size, err = parsePageBlobSize(text); err != nil {
			return err
		}
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	result, err := s.state.Blobs.SetProperties(&w, &p)
	if err != nil {
		return err
	}
	c.SendChanged(result.Changed)
	if result.Kind == record.PageBlob {
		c.SetInt("x-ms-blob-sequence-number", result.Sequence)
	}
	return c.Status(http.StatusOK)
}

// setBlobTier: https://learn.microsoft.com/rest/api/storageservices/set-blob-tier
// Content does not move with the tier.
func (s *Service) setBlobTier(c *call) error {
	text := c.Header("X-Ms-Access-Tier")
	if text == "" {
		return wire.MissingHeader("x-ms-access-tier")
	}
	tier, ok := parseTier(text, c.EffectiveVersion())
	if !ok {
		return wire.InvalidHeader("x-ms-access-tier", text)
	}
	high, err := highPriority(c.Headers())
	if err != nil {
		return err
	}
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	pending, err := s.state.Blobs.SetTier(&w, tier, high)
	if err != nil {
		return err
	}
	if pending {
		return c.Status(http.StatusAccepted)
	}
	return c.Status(http.StatusOK)
}

// setImmutabilityPolicy: https://learn.microsoft.com/rest/api/storageservices/set-blob-immutability-policy
// A locked policy stays locked and can only be prolonged.
func (s *Service) setImmutabilityPolicy(c *call) error {
	policy, modeSent, err := policyHeaders(c.Headers(), c.Now)
	if err != nil {
		return err
	}
	if policy.Until == 0 {
		return wire.MissingHeader(untilHeader)
	}
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	out, err := s.state.Immutability.SetPolicy(&w, policy, modeSent && !policy.Locked)
	if err != nil {
		return err
	}
	sendProtection(c, &out)
	return c.Status(http.StatusOK)
}

// deleteImmutabilityPolicy: https://learn.microsoft.com/rest/api/storageservices/delete-blob-immutability-policy
func (s *Service) deleteImmutabilityPolicy(c *call) error {
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	if err := s.state.Immutability.DeletePolicy(&w); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// setLegalHold: https://learn.microsoft.com/rest/api/storageservices/set-blob-legal-hold
func (s *Service) setLegalHold(c *call) error {
	hold, sent, err := c.Headers().Flag(legalHold)
	if err != nil {
		return err
	}
	if !sent {
		return wire.MissingHeader(holdHeader)
	}
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	if err := s.state.Immutability.SetHold(&w, hold); err != nil {
		return err
	}
	c.Set(holdHeader, strconv.FormatBool(hold))
	return c.Status(http.StatusOK)
}
