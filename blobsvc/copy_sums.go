package blobsvc

import (
	"errors"
	"io"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// copySums are the checksums that Copy Blob From URL answers with: the MD5, not encoded, and the CRC64, encoded. "" is
// absent.
type copySums struct{ md5, crc string }

// copySums returns the checksums for a copy whose content was read or whose source has an MD5. From version 2019-02-02
// on it is the CRC64, unless the client named the MD5; both from version 2026-10-06 on in that case.
func (c *call) copySums(md5, crc string) copySums {
	named := c.HasHeader("X-Ms-Source-Content-Md5")
	switch {
	case c.version() < v20190202:
		return copySums{md5: md5}
	case !named:
		return copySums{crc: crc}
	case c.version() >= v20261006:
		return copySums{md5, crc}
	}
	return copySums{md5: md5}
}

// copySummed copies a source of this process, whose bytes the copy refers to, and returns the CRC64 of the content
// where the answer has it: the source is read for it alone. A source that changes in the meantime is read again.
func (s *Service) copySummed(c *call, src *copySource, w *state.Write, b *state.Blob,
	cp *state.Copy) (result state.CopyResult, crc string, err error) {
	for range maxSourceChanges {
		if c.copySums("md5", "crc").crc != "" {
			if crc, cp.Of, err = s.sourceCRC(c, src); err != nil {
				return result, "", err
			}
		}
		result, err = s.state.CopyBlob(w, b, &src.local, cp)
		if !errors.Is(err, state.ErrSourceChanged) {
			return result, crc, err
		}
	}
	return result, "", wire.ErrServerBusy
}

// maxSourceChanges is the number of times that Copy Blob From URL reads a source that changes while it is read.
const maxSourceChanges = 5

// sourceCRC returns the CRC64 of a source of this process, and which state of it was read.
func (s *Service) sourceCRC(c *call, src *copySource) (crc string, of ticks.Ticks, err error) {
	var from state.Blob
	body, err := s.state.OpenSource(&src.local, c.Now, state.WholeBlob, false, &from)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = body.Reader.Close() }()
	if from.Length > state.MaxSyncCopy {
		return "", from.Changed, nil // which is refused
	}
	sum := crc64nvme.New()
	if _, err := io.Copy(sum, io.LimitReader(body.Reader, body.Length)); err != nil {
		return "", 0, err
	}
	return formatCRC(sum.Sum64()), from.Changed, nil
}
