package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// maxAppends is the number of blocks that an append blob can have.
const maxAppends = 50_000

// createAppendBlob is Put Blob for an append blob.
func (s *Service) createAppendBlob(c *call) error {
	n, err := c.contentLength(0)
	if err != nil {
		if n == 0 && c.HTTP.ContentLength > 0 {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(c.HTTP.ContentLength, 10))
		}
		return err
	}
	b, p, err := c.newBlob(AppendBlob, true)
	if err != nil {
		return err
	}
	return s.createEmpty(c, &b, &p)
}

// AppendConditions are the conditions that only Append Block knows.
type AppendConditions struct {
	Position, MaxSize       int64
	HasPosition, HasMaxSize bool
}

func (c *call) appendConditions() (a AppendConditions, err error) {
	if text := c.Header("X-Ms-Blob-Condition-Appendpos"); text != "" {
		if a.Position, a.HasPosition = parseOffset(text); !a.HasPosition {
			return a, wire.InvalidHeader("x-ms-blob-condition-appendpos", text)
		}
	}
	if text := c.Header("X-Ms-Blob-Condition-Maxsize"); text != "" {
		if a.MaxSize, a.HasMaxSize = parseOffset(text); !a.HasMaxSize {
			return a, wire.InvalidHeader("x-ms-blob-condition-maxsize", text)
		}
	}
	return a, nil
}

// check compares the conditions with a blob of length bytes that is to grow by n.
func (a AppendConditions) check(length, n int64) error {
	if a.HasPosition && a.Position != length {
		return errAppendPosition
	}
	if a.HasMaxSize && length+n > a.MaxSize {
		return errMaxBlobSize
	}
	return nil
}

// appendBlock: https://learn.microsoft.com/rest/api/storageservices/append-block
func (s *Service) appendBlock(c *call) error {
	limit := int64(4 * mib)
	if c.version() >= v20221102 {
		limit = 100 * mib
	}
	n, err := c.contentLength(limit)
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.InvalidHeader("Content-Length", "0")
	}
	conditions, err := c.appendConditions()
	if err != nil {
		return err
	}
	up, err := s.receive(c, n, false)
	if err != nil {
		return err
	}
	defer up.Close()
	return s.append(c, conditions, up, func() { c.sendHashes(up) })
}

// append adds received content to the end of an append blob, and answers; extra adds response headers.
func (s *Service) append(c *call, conditions AppendConditions, up *content.Upload, extra func()) error {
	changed := s.ticks.Next(c.Now)
	var at, blocks int64
	err := s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		if b.Kind != AppendBlob {
			return errInvalidBlobType
		}
		if err := s.mayAdd(c, b, up); err != nil {
			return err
		}
		if err := conditions.check(b.Length, up.Length); err != nil {
			return err
		}
		if err := b.checkChangeable(); err != nil {
			return err
		}
		if b.Sealed {
			return errBlobIsSealed
		}
		if b.Blocks >= maxAppends {
			return errAppendCountExceeded
		}
		if b.content.id == 0 {
			b.content = newContent(tx)
		}
		at = b.Length
		p := up.Pieces()
		p[0].Start = at
		putPieces(tx, b.content.id, p)
		b.Length += up.Length
		b.Blocks++
		blocks = b.Blocks
		b.Changed = changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.note(tx, c, eventContent, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	c.SetInt("x-ms-blob-append-offset", at)
	c.SetInt("x-ms-blob-committed-block-count", blocks)
	extra()
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// sealBlob: https://learn.microsoft.com/rest/api/storageservices/append-blob-seal
// Sealing a sealed blob succeeds and changes nothing.
func (s *Service) sealBlob(c *call) error {
	conditions, err := c.appendConditions()
	if err != nil {
		return err
	}
	changed := s.ticks.Next(c.Now)
	var out ticks.Ticks
	err = s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		if b.Kind != AppendBlob {
			return errInvalidBlobType
		}
		if conditions.HasPosition && conditions.Position != b.Length {
			return errAppendPosition
		}
		if !b.Sealed {
			b.Sealed, b.Changed = true, changed
			putBlob(tx, gen, c.blob, baseSlot, b)
			s.note(tx, c, eventProperties, baseSlot, b)
		}
		out = b.Changed
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(out)
	c.Set("x-ms-blob-sealed", "true")
	return c.Status(http.StatusOK)
}
