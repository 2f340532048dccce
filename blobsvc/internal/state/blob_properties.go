package state

// SetMetadata replaces the metadata of a blob. With versioning the blob becomes a new version.
func (s Blobs) SetMetadata(w *Write, metadata []Meta) (Result, error) {
	return s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *Blob) error {
		if err := c.unlockFor(b, nil); err != nil {
			return err
		}
		if err := c.checkScope(b, true); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
			return ErrArchived
		}
		if err := b.checkChangeable(); err != nil {
			return err
		}
		if err := c.newVersion(b, c.at); err != nil {
			return err
		}
		b.Metadata = metadata
		c.changes(eventProperties, b)
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
	Headers Headers
	// Size is the new length in bytes of a page blob, -1 to keep it. Sequence changes its sequence number.
	Size     int64
	Sequence SequenceAction
}

// ofPages reports whether the request sets only properties of page blobs.
func (p *Properties) ofPages() bool { return p.Sequence.Kind != "" || p.Size >= 0 }

// PropertiesResult is the result of SetProperties.
type PropertiesResult struct {
	Result
	Kind Kind
	// Sequence is the sequence number of a page blob.
	Sequence int64
}

// SetProperties changes the headers of a blob, and the size and sequence number of a page blob.
func (s Blobs) SetProperties(w *Write, p *Properties) (out PropertiesResult, err error) {
	result, err := s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *Blob) (err error) {
		if p.ofPages() && b.Kind != PageBlob {
			return ErrBlobType
		}
		if b.Tier == ArchiveTier {
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
		headers := b.Headers
		c.previous.headers = &headers
		if !p.ofPages() || p.Headers != (Headers{}) {
			b.Headers = p.Headers
		}
		if b.Sequence, err = p.Sequence.apply(b.Sequence); err != nil {
			return err
		}
		if p.Size >= 0 && p.Size != b.Length {
			if err := b.checkChangeable(); err != nil {
				return err
			}
			if err := resizePages(c.tx, b, p.Size); err != nil {
				return err
			}
		}
		c.changes(eventProperties, b)
		out.Kind, out.Sequence = b.Kind, b.Sequence
		return nil
	})
	out.Result = result
	return out, err
}
