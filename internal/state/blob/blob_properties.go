package blob

import "github.com/lazuli-storage/lazuli/internal/state/blob/record"

// SetMetadata replaces the metadata of a blob. With versioning the blob becomes a new version.
func (s Blobs) SetMetadata(w *Write, metadata []record.Meta) (Result, error) {
	return s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if err := c.unlockFor(b, nil); err != nil {
			return err
		}
		if err := c.checkScope(b, true); err != nil {
			return err
		}
		if b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		if err := b.CheckChangeable(); err != nil {
			return err
		}
		if err := c.newVersion(b, c.at); err != nil {
			return err
		}
		b.Metadata = metadata
		c.changes(record.EventProperties, b)
		return nil
	})
}

// SequenceAction is the change of a page blob's sequence number by Set Blob Properties.
type SequenceAction struct {
	Kind   string // "", "max", "update" or "increment"
	Number int64
}

func (a SequenceAction) apply(n int64) (int64, error) {
	switch a.Kind {
	case "max":
		return max(n, a.Number), nil
	case "update":
		return a.Number, nil
	case "increment":
		if n == 1<<63-1 {
			return n, ErrSequenceOverflow
		}
		return n + 1, nil
	}
	return n, nil
}

// Properties are the values that Set Blob Properties sets.
type Properties struct {
	// Headers replace the blob's headers, unless they are the zero value and the request sets properties of a page blob.
	Headers record.Headers
	// Size is the new length in bytes of a page blob, -1 to keep it. Sequence changes its sequence number.
	Size     int64
	Sequence SequenceAction
}

// ofPages reports whether the request sets only properties of page blobs.
func (p *Properties) ofPages() bool { return p.Sequence.Kind != "" || p.Size >= 0 }

// PropertiesResult is the result of SetProperties.
type PropertiesResult struct {
	Result
	Kind record.Kind
	// Sequence is the sequence number of a page blob.
	Sequence int64
}

// SetProperties changes the headers of a blob, and the size and sequence number of a page blob.
func (s Blobs) SetProperties(w *Write, p *Properties) (out PropertiesResult, err error) {
	result, err := s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) (err error) {
		if p.ofPages() && b.Kind != record.PageBlob {
			return ErrBlobType
		}
		if b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		if c.Encryption.Key != nil { // a key is not needed, but a wrong one is an error
			if err := c.unlock(b); err != nil {
				return err
			}
		}
		if err := c.checkScope(b, false); err != nil {
			return err
		}
		// A copy, since the event tells which headers the change replaces.
		headers := b.Headers
		c.previous.headers = &headers
		// A request with page parameters alone leaves the headers as they are; every other one replaces all of them, also by
		// nothing.
		if !p.ofPages() || p.Headers != (record.Headers{}) {
			b.Headers = p.Headers
		}
		if b.Sequence, err = p.Sequence.apply(b.Sequence); err != nil {
			return err
		}
		// Properties of a protected blob may change. Its content may not, and a new size cuts or adds some.
		if p.Size >= 0 && p.Size != b.Length {
			if err := b.CheckChangeable(); err != nil {
				return err
			}
			if err := resizePages(c.tx, b, p.Size); err != nil {
				return err
			}
		}
		c.changes(record.EventProperties, b)
		out.Kind = b.Kind
		out.Sequence = b.Sequence
		return nil
	})
	out.Result = result
	return out, err
}
