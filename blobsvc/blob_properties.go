package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// setBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata
func (s *Service) setBlobMetadata(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	changed := s.ticks.Next(c.Now)
	err = s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		if err := s.mayAdd(c, b, nil); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
			return errBlobArchived
		}
		if err := b.checkChangeable(); err != nil {
			return err
		}
		if err := s.newVersion(tx, c, gen, b, changed); err != nil {
			return err
		}
		b.Metadata, b.Changed = metadata, changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.note(tx, c, eventProperties, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	c.sendEncrypted()
	return c.Status(http.StatusOK)
}

// SequenceAction is what Set Blob Properties does to the sequence number of a page blob.
type SequenceAction struct {
	Kind   string // "", "max", "update" or "increment"
	Number int64
}

func (c *call) sequenceAction() (a SequenceAction, err error) {
	a.Kind = c.Header("X-Ms-Sequence-Number-Action")
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
	default:
		return a, wire.InvalidHeader("x-ms-sequence-number-action", a.Kind)
	}
	return a, nil
}

func (a SequenceAction) apply(n int64) (int64, error) {
	switch a.Kind {
	case "max":
		return max(n, a.Number), nil
	case "update":
		return a.Number, nil
	case "increment":
		if n == 1<<63-1 {
			return n, errSequenceNumberTooLarge
		}
		return n + 1, nil
	}
	return n, nil
}

// setBlobProperties: https://learn.microsoft.com/rest/api/storageservices/set-blob-properties
// The headers are replaced as a whole, except when the request only resizes a page blob or sets its sequence number.
func (s *Service) setBlobProperties(c *call) error {
	h, err := c.contentHeaders(false)
	if err != nil {
		return err
	}
	seq, err := c.sequenceAction()
	if err != nil {
		return err
	}
	size := int64(-1)
	if text := c.Header("X-Ms-Blob-Content-Length"); text != "" {
		if size, err = parsePageBlobSize(text); err != nil {
			return err
		}
	}
	ofPages := seq.Kind != "" || size >= 0
	changed := s.ticks.Next(c.Now)
	var out Blob
	err = s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		if ofPages && b.Kind != PageBlob {
			return errInvalidBlobType
		}
		if b.Tier == ArchiveTier {
			return errBlobArchived
		}
		if c.key != nil { // not needed, and not to be wrong
			if err := s.unlock(c.Account, b, c.key); err != nil {
				return err
			}
		}
		headers := b.Headers
		c.before.headers = &headers
		if !ofPages || h != (Headers{}) {
			b.Headers = h
		}
		var err error
		if b.Sequence, err = seq.apply(b.Sequence); err != nil {
			return err
		}
		if size >= 0 && size != b.Length {
			if err := b.checkChangeable(); err != nil {
				return err
			}
			if err := resizePages(tx, b, size); err != nil {
				return err
			}
		}
		b.Changed = changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.note(tx, c, eventProperties, baseSlot, b)
		out = *b
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	if out.Kind == PageBlob {
		c.Set("x-ms-blob-sequence-number", strconv.FormatInt(out.Sequence, 10))
	}
	return c.Status(http.StatusOK)
}
