package blobsvc

import (
	"encoding/base64"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// maxBlockID is the length in bytes of the longest block ID, before base64.
const maxBlockID = 64

// earlyCheck is the size in bytes from which on a body is received only after the preconditions were found to hold.
const earlyCheck = 1 * mib

// putBlob: https://learn.microsoft.com/rest/api/storageservices/put-blob
func (s *Service) putBlob(c *call) error {
	switch kind, ok := state.ParseKind(c.Header("X-Ms-Blob-Type")); {
	case !c.HasHeader("X-Ms-Blob-Type"):
		return wire.MissingHeader("x-ms-blob-type")
	case !ok:
		return wire.InvalidHeader("x-ms-blob-type", c.Header("X-Ms-Blob-Type"))
	case kind == state.PageBlob:
		return s.createPageBlob(c)
	case kind == state.AppendBlob:
		return s.createAppendBlob(c)
	}
	return s.putBlockBlob(c)
}

// putBlockBlob is Put Blob for a block blob.
func (s *Service) putBlockBlob(c *call) error {
	n, err := c.contentLength(c.byVersion(5000*mib, 256*mib, 64*mib))
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, state.BlockBlob, true)
	if err != nil {
		return err
	}
	if n >= earlyCheck {
		if err := s.state.CheckPut(&w); err != nil {
			return c.unread(err)
		}
	}
	up, err := s.receive(c, &w, n, true)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.putContent(c, &w, &b, up); err != nil {
		return err
	}
	if up.HasCRC64 {
		c.Set("x-ms-content-crc64", formatCRC(up.CRC64))
	}
	return c.Status(http.StatusCreated)
}

// putContent writes b with all that was received as its content, and sets the headers of the response.
func (s *Service) putContent(c *call, w *state.Write, b *state.Blob, up *content.Upload) error {
	if b.Headers.MD5 == "" {
		b.Headers.MD5 = string(up.MD5)
	}
	result, err := s.state.PutBlob(w, b, up)
	if err != nil {
		return err
	}
	c.sendWritten(&result)
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.MD5))
	return nil
}

// blockID reads the blockid parameter.
func (c *call) blockID() (string, error) {
	if !c.Query.Has("blockid") {
		return "", wire.MissingQuery("blockid")
	}
	s := c.Query.Get("blockid")
	id, ok := parseBlockID(s)
	if !ok {
		return "", invalidQuery("blockid", s)
	}
	return id, nil
}

func parseBlockID(s string) (string, bool) {
	if len(s) > 4*((maxBlockID+2)/3) {
		return "", false
	}
	id, err := base64.StdEncoding.DecodeString(s)
	return string(id), err == nil && len(id) > 0 && len(id) <= maxBlockID
}

// putBlock: https://learn.microsoft.com/rest/api/storageservices/put-block
func (s *Service) putBlock(c *call) error {
	n, err := c.contentLength(c.byVersion(4000*mib, 100*mib, 4*mib))
	if err != nil {
		return err
	}
	id, err := c.blockID()
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.InvalidHeader("Content-Length", "0")
	}
	w, err := s.writeBlock(c)
	if err != nil {
		return err
	}
	if n >= earlyCheck {
		if err := s.state.CheckBlock(&w); err != nil {
			return c.unread(err)
		}
	}
	up, err := s.receive(c, &w, n, false)
	if err != nil {
		return err
	}
	defer up.Close()
	result, err := s.state.StageBlock(&w, id, up)
	if err != nil {
		return err
	}
	c.sendHashes(up)
	c.sendEncrypted(result.Encryption)
	return c.Status(http.StatusCreated)
}

// writeBlock is writeContent for Put Block, which has no conditions but the lease.
func (s *Service) writeBlock(c *call) (w state.Write, err error) {
	w = s.unconditional(c)
	if w.If.LeaseID, err = c.leaseID("X-Ms-Lease-Id"); err != nil {
		return w, err
	}
	err = c.encryptionScope(&w.Encryption)
	return w, err
}
