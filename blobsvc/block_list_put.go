package blobsvc

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// parseBlockList reads the body of Put Block List. It fails with wire.ErrInvalidXMLDocument, errBlockListTooLong or
// errBlockList.
func parseBlockList(body []byte) ([]state.BlockRef, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
	d.CharsetReader = wire.XMLCharset
	var refs []state.BlockRef
	depth := 0
	var source state.BlockSource
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
				refs = []state.BlockRef{}
			case depth == 2 && name == "Committed":
				source = state.FromCommitted
			case depth == 2 && name == "Uncommitted":
				source = state.FromUncommitted
			case depth == 2 && name == "Latest":
				source = state.FromLatest
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
					return nil, state.ErrBlockList
				}
				if len(refs) == state.MaxCommittedBlocks {
					return nil, state.ErrBlockListTooLong
				}
				refs = append(refs, state.BlockRef{Source: source, ID: id})
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

func elementOf(s state.BlockSource) string {
	switch s {
	case state.FromCommitted:
		return "Committed"
	case state.FromUncommitted:
		return "Uncommitted"
	}
	return "Latest"
}

// maxBlockListBody is the length in bytes of the longest body of Put Block List.
const maxBlockListBody = 16 * mib

// putBlockList: https://learn.microsoft.com/rest/api/storageservices/put-block-list
func (s *Service) putBlockList(c *call) error {
	b, w, err := s.newBlob(c, state.BlockBlob, false)
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
	sums := content.Sum(body, o)
	if err := sent.check(sums); err != nil {
		return err
	}
	refs, err := parseBlockList(body)
	if err != nil {
		return err
	}
	result, err := s.state.PutBlockList(&w, &b, refs)
	if err != nil {
		return err
	}
	c.sendWritten(&result)
	if sums.HasCRC64 { // alone, also if the request has an MD5
		c.Set("x-ms-content-crc64", formatCRC(sums.CRC64))
	} else {
		c.sendMD5(sums)
	}
	return c.Status(http.StatusCreated)
}
