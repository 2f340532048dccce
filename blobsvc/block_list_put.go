package blobsvc

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// parseBlockList reads the body of Put Block List. It fails with wire.ErrInvalidXMLDocument, errBlockListTooLong or
// errInvalidBlockList.
func parseBlockList(body []byte) ([]BlockRef, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, wire.ErrInvalidXMLDocument }
	var refs []BlockRef
	depth := 0
	var source BlockSource
	var text []byte
	for {
		tok, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, wire.ErrInvalidXMLDocument
		}
		switch t := tok.(type) {
		case xml.StartElement:
			depth++
			switch name := t.Name.Local; {
			case depth == 1 && name == "BlockList" && refs == nil:
				refs = []BlockRef{}
			case depth == 2 && name == "Committed":
				source = FromCommitted
			case depth == 2 && name == "Uncommitted":
				source = FromUncommitted
			case depth == 2 && name == "Latest":
				source = FromLatest
			default:
				return nil, wire.ErrInvalidXMLDocument
			}
			text = text[:0]
		case xml.CharData:
			if depth == 2 {
				text = append(text, t...)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, wire.ErrInvalidXMLDocument
			}
		case xml.EndElement:
			depth--
			if depth < 0 || depth == 1 && t.Name.Local != elementOf(source) || depth == 0 && t.Name.Local != "BlockList" {
				return nil, wire.ErrInvalidXMLDocument
			}
			if depth == 1 {
				id, ok := parseBlockID(string(bytes.TrimSpace(text)))
				if !ok {
					return nil, errInvalidBlockList
				}
				if len(refs) == MaxCommittedBlocks {
					return nil, errBlockListTooLong
				}
				refs = append(refs, BlockRef{source, id})
			}
		case xml.Directive:
			return nil, wire.ErrInvalidXMLDocument
		}
	}
	if refs == nil || depth != 0 {
		return nil, wire.ErrInvalidXMLDocument
	}
	return refs, nil
}

func elementOf(s BlockSource) string {
	switch s {
	case FromCommitted:
		return "Committed"
	case FromUncommitted:
		return "Uncommitted"
	}
	return "Latest"
}

// putBlockList: https://learn.microsoft.com/rest/api/storageservices/put-block-list
func (s *Service) putBlockList(c *call) error {
	b, p, err := c.newBlob(BlockBlob, false)
	if err != nil {
		return err
	}
	if _, err := c.contentLength(maxBlockListBody); err != nil {
		return err
	}
	sent, err := c.transportHashes()
	if err != nil {
		return err
	}
	body, err := c.ReadBody(maxBlockListBody)
	if err != nil {
		return err
	}
	o := content.Options{CRC64: sent.hasCRC || c.version() >= v20190202}
	o.MD5 = sent.md5 != nil || !o.CRC64
	up := content.Sum(body, o)
	if err := sent.check(up); err != nil {
		return err
	}
	refs, err := parseBlockList(body)
	if err != nil {
		return err
	}
	b.Changed = s.ticks.Next(c.Now)
	if b.Tier != "" {
		b.TierChanged = b.Changed
	}
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		return s.commitBlocks(tx, c, &p, &b, refs)
	})
	if err != nil {
		return err
	}
	c.sendVersion(b.Changed)
	c.sendHashes(up)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// commitBlocks makes the blocks that refs name the content of b and puts b in place.
func (s *Service) commitBlocks(tx *store.Tx, c *call, p *Preconditions, b *Blob, refs []BlockRef) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old Blob
	b.Created = b.Changed
	var committed []content.Piece
	switch err := getBlob(tx, gen, c.blob, baseSlot, &old); err {
	case nil:
		if old.Kind != BlockBlob {
			return errInvalidBlobType
		}
		err := old.content.walk(tx, 0, old.Length, old.Length, func(p *content.Piece) error {
			committed = append(committed, *p)
			committed[len(committed)-1].Encryption = old.Encryption
			return nil
		})
		if err != nil {
			return err
		}
	case errBlobNotFound:
	default:
		return err
	}
	var set uint64
	if v := tx.Get(pendingBucket, pendingKey(gen, c.blob)); v != nil {
		pending, err := decodePending(v)
		if err != nil {
			return err
		}
		set = pending.set
	}
	pieces, err := assemble(refs, committed, func(id string) (content.Piece, bool, error) {
		if set == 0 {
			return content.Piece{}, false, nil
		}
		v := tx.Get(blocksBucket, blockKey(set, id))
		if v == nil {
			return content.Piece{}, false, nil
		}
		p, err := decodeBlock(v)
		return p, true, err
	})
	if err != nil {
		// Preconditions come before the list's own faults.
		if old.Kind != 0 {
			if err := p.checkWrite(&old, c.now()); err != nil {
				return err
			}
		} else if err := p.checkCreate(); err != nil {
			return err
		}
		return err
	}
	if b.Encryption, err = s.encryptionFor(tx, c); err != nil {
		return err
	}
	for i := range pieces {
		if err := pieces[i].Encryption.Matches(b.Encryption); err != nil {
			return err
		}
	}
	b.content, b.Length = layOut(tx, pieces)
	return s.replace(tx, c, p, b)
}
