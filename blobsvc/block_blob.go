package blobsvc

import (
	"encoding/base64"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// maxBlockID is the length in bytes of the longest block ID, before base64.
const maxBlockID = 64

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
	if err := c.mayStageBlocks(); err != nil {
		return err
	}
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

// mayStageBlocks fails for callers who may only create blobs, if their version is older than 2026-06-06: the first
// whose client libraries test that permission. The reference does not name the version.
func (c *call) mayStageBlocks() error {
	if c.version() < v20260606 {
		return c.holds(ofWrites)
	}
	return nil
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
