package blobsvc

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
)

// appendConditions reads the conditions that only Append Block knows.
func appendConditions(c *call) (a state.AppendConditions, err error) {
	if text := c.Header("X-Ms-Blob-Condition-Appendpos"); text != "" {
		if a.Position, a.HasPosition = endpoint.ParseOffset(text); !a.HasPosition {
			return a, wire.InvalidHeader("x-ms-blob-condition-appendpos", text)
		}
	}
	if text := c.Header("X-Ms-Blob-Condition-Maxsize"); text != "" {
		if a.MaxSize, a.HasMaxSize = endpoint.ParseOffset(text); !a.HasMaxSize {
			return a, wire.InvalidHeader("x-ms-blob-condition-maxsize", text)
		}
	}
	return a, nil
}

// maxAppendBlock is the length in bytes of the longest block of Append Block.
func maxAppendBlock(c *call) int64 {
	if c.EffectiveVersion() >= endpoint.V20221102 {
		return 100 * endpoint.MiB
	}
	return 4 * endpoint.MiB
}

// appendBlock: https://learn.microsoft.com/rest/api/storageservices/append-block
func (s *Service) appendBlock(c *call) error {
	n, err := c.ContentLength(maxAppendBlock(c))
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.InvalidHeader("Content-Length", "0")
	}
	conditions, err := appendConditions(c)
	if err != nil {
		return err
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	if earlyETag(w.If.IfMatch) {
		return wire.ErrOutOfRangeInput
	}
	up, err := c.Receive(&w, n, endpoint.Reception{Existing: true})
	if err != nil {
		return err
	}
	defer up.Close()
	return s.append(c, &w, conditions, up, func() { c.SendHashes(up) })
}

// append adds received content to the end of an append blob, and answers. hashes sets the headers with its hashes.
func (s *Service) append(c *call, w *state.Write, conditions state.AppendConditions, up *content.Upload,
	hashes func()) error {
	result, err := s.state.AppendBlobs.Append(w, conditions, up)
	if err != nil {
		return err
	}
	c.SendChanged(result.Changed)
	c.SetInt("x-ms-blob-append-offset", result.Offset)
	c.SetInt("x-ms-blob-committed-block-count", result.Blocks)
	hashes()
	c.SendEncrypted(result.Encryption)
	return c.Status(http.StatusCreated)
}

// sealBlob: https://learn.microsoft.com/rest/api/storageservices/append-blob-seal
func (s *Service) sealBlob(c *call) error {
	conditions, err := appendConditions(c)
	if err != nil {
		return err
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	result, err := s.state.AppendBlobs.Seal(&w, conditions)
	if err != nil {
		return err
	}
	c.SendChanged(result.Changed)
	c.Set("x-ms-blob-sealed", "true")
	return c.Status(http.StatusOK)
}

// earlyETag reports whether an entity tag is the time of no blob, being before 1601. Append Block refuses such a tag in
// If-Match, where other operations answer that the condition is not met. Recorded for 0x111111111111111; that the year
// is the reason is an assumption.
func earlyETag(tag string) bool {
	const year1601 = 504911232000000000 // in ticks
	digits, ok := strings.CutPrefix(strings.Trim(tag, `"`), "0x")
	n, err := strconv.ParseUint(digits, 16, 63)
	return ok && err == nil && n < year1601
}
