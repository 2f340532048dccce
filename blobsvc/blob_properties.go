package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// setBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata
func (s *Service) setBlobMetadata(c *call) error {
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	if s.hierarchical(c.Account) {
		metadata, _ = withoutFolderMark(metadata)
	}
	w, err := s.writeExisting(c)
	if err != nil {
		return err
	}
	result, err := s.state.SetMetadata(&w, metadata)
	if err != nil {
		return err
	}
	c.sendWritten(&result)
	return c.Status(http.StatusOK)
}

// sequenceAction reads what Set Blob Properties does to the sequence number of a page blob.
func (c *call) sequenceAction() (a state.SequenceAction, err error) {
	if a.Kind, err = c.word("X-Ms-Sequence-Number-Action", "increment", "max", "update"); err != nil {
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
		if a.Number, ok = parseOffset(number); !ok {
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
	if p.Headers, err = c.contentHeaders(false); err != nil {
		return err
	}
	if p.Sequence, err = c.sequenceAction(); err != nil {
		return err
	}
	if text := c.Header("X-Ms-Blob-Content-Length"); text != "" {
		if p.Size, err = parsePageBlobSize(text); err != nil {
			return err
		}
	}
	w, err := s.writeExisting(c)
	if err != nil {
		return err
	}
	result, err := s.state.SetBlobProperties(&w, &p)
	if err != nil {
		return err
	}
	c.sendChanged(result.Changed)
	if result.Kind == state.PageBlob {
		c.SetInt("x-ms-blob-sequence-number", result.Sequence)
	}
	return c.Status(http.StatusOK)
}
