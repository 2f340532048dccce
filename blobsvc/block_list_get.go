package blobsvc

import (
	"bytes"
	"encoding/base64"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// getBlockList: https://learn.microsoft.com/rest/api/storageservices/get-block-list
func (s *Service) getBlockList(c *call) error {
	kind := c.Query.Get("blocklisttype")
	var committed, uncommitted bool
	switch kind {
	case "", "committed":
		committed = true
	case "uncommitted":
		uncommitted = true
	case "all":
		committed, uncommitted = true, true
	default:
		return invalidQuery("blocklisttype", kind)
	}
	p, err := c.preconditions()
	if err != nil {
		return err
	}
	at, err := c.address()
	if err != nil {
		return err
	}
	var b Blob
	x := wire.NewXML(1024).Open("BlockList")
	err = s.db.View(func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		pending := tx.Get(pendingBucket, pendingKey(gen, c.blob))
		switch _, err := at.get(tx, gen, c.blob, &b); {
		case err == nil:
			if b.Kind != BlockBlob {
				return errInvalidBlobType
			}
			if err := p.checkRead(&b, c.now()); err != nil {
				return err
			}
		case err == errBlobNotFound && pending != nil && at.IsBase():
		default:
			return err
		}
		if committed {
			list := newBlockXML(x, "CommittedBlocks")
			err := b.content.walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
				if p.Block != "" { // Put Blob writes content without blocks
					list.add(p.Block, p.Length)
				}
				return nil
			})
			if err != nil {
				return err
			}
			list.end()
		}
		if !uncommitted {
			return nil
		}
		list := newBlockXML(x, "UncommittedBlocks")
		if pending != nil && at.IsBase() {
			if err := walkBlocks(tx, pending, list.add); err != nil {
				return err
			}
		}
		list.end()
		return nil
	})
	if err != nil {
		return err
	}
	if b.Kind != 0 {
		c.sendVersion(b.Changed)
		c.SetInt("x-ms-blob-content-length", b.Length)
	}
	return c.XML(http.StatusOK, x.Close("BlockList"))
}

// walkBlocks calls fn with the uncommitted blocks that a pending record stands for, in the order of their ids.
func walkBlocks(tx *store.Tx, pending []byte, fn func(id string, length int64)) error {
	p, err := decodePending(pending)
	if err != nil {
		return err
	}
	scope := generationPrefix(p.set)
	cur := tx.Cursor(blocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, id, err := parseBlockKey(k)
		if err != nil {
			return err
		}
		block, err := decodeBlock(v)
		if err != nil {
			return err
		}
		fn(id, block.Length)
	}
	return nil
}

// blockXML writes one list of Get Block List; an empty one as an empty element.
type blockXML struct {
	x    *wire.XML
	name string
	any  bool
}

func newBlockXML(x *wire.XML, name string) *blockXML { return &blockXML{x: x, name: name} }

func (l *blockXML) add(id string, length int64) {
	if !l.any {
		l.any = true
		l.x.Open(l.name)
	}
	l.x.Open("Block").Text("Name", base64.StdEncoding.EncodeToString([]byte(id))).Int("Size", length).Close("Block")
}

func (l *blockXML) end() {
	if l.any {
		l.x.Close(l.name)
	} else {
		l.x.Empty(l.name)
	}
}
