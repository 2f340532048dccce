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
func parseBlockList(body []byte) ([]blockRef, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, wire.ErrInvalidXMLDocument }
	var refs []blockRef
	depth := 0
	var source blockSource
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
				refs = []blockRef{}
			case depth == 2 && name == "Committed":
				source = fromCommitted
			case depth == 2 && name == "Uncommitted":
				source = fromUncommitted
			case depth == 2 && name == "Latest":
				source = fromLatest
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
				if len(refs) == maxCommittedBlocks {
					return nil, errBlockListTooLong
				}
				refs = append(refs, blockRef{source, id})
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

func elementOf(s blockSource) string {
	switch s {
	case fromCommitted:
		return "Committed"
	case fromUncommitted:
		return "Uncommitted"
	}
	return "Latest"
}

// putBlockList: https://learn.microsoft.com/rest/api/storageservices/put-block-list
func (s *Service) putBlockList(c *call) error {
	b, p, err := c.newBlob(blockBlob, false)
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
	b.changed = s.ticks.Next(c.Now)
	if b.tier != "" {
		b.tierChanged = b.changed
	}
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		return s.commitBlocks(tx, c, &p, &b, refs)
	})
	if err != nil {
		return err
	}
	c.sendVersion(b.changed)
	c.sendHashes(up)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// commitBlocks makes the blocks that refs name the content of b and puts b in place.
func (s *Service) commitBlocks(tx *store.Tx, c *call, p *preconditions, b *blobRecord, refs []blockRef) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old blobRecord
	b.created = b.changed
	var committed []content.Piece
	switch err := getBlob(tx, gen, c.blob, baseSlot, &old); err {
	case nil:
		if old.kind != blockBlob {
			return errInvalidBlobType
		}
		err := old.content.walk(tx, 0, old.length, old.length, func(p *content.Piece) error {
			committed = append(committed, *p)
			committed[len(committed)-1].Encryption = old.encryption
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
		if old.kind != 0 {
			if err := p.checkWrite(&old, c.now()); err != nil {
				return err
			}
		} else if err := p.checkCreate(); err != nil {
			return err
		}
		return err
	}
	if b.encryption, err = s.encryptionFor(tx, c); err != nil {
		return err
	}
	for i := range pieces {
		if err := pieces[i].Encryption.Matches(b.encryption); err != nil {
			return err
		}
	}
	b.content, b.length = layOut(tx, pieces)
	return s.replace(tx, c, p, b)
}
