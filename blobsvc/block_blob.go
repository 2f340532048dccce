package blobsvc

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// maxBlockID is the length in bytes of the longest block ID, before base64.
const maxBlockID = 64

// blockID reads the blockid parameter.
func blockID(c *call) (string, error) {
	if !c.Query.Has("blockid") {
		return "", wire.MissingQuery("blockid")
	}
	s := c.Query.Get("blockid")
	id, ok := parseBlockID(s)
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return "", wire.InvalidQuery("blockid", s, "Not a valid base64 string.")
	}
	if !ok {
		return "", endpoint.InvalidQuery("blockid", s)
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
	if err := mayStageBlocks(c); err != nil {
		return err
	}
	limit := endpoint.ByVersion(c.EffectiveVersion(), 4000*endpoint.MiB, 100*endpoint.MiB, 4*endpoint.MiB)
	n, err := c.ContentLength(limit)
	if err != nil {
		return err
	}
	id, err := blockID(c)
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
	// StageBlock makes the same checks in its transaction. This one spares the client a long upload that would be
	// refused.
	if n >= endpoint.EarlyCheck {
		if err := s.state.BlockBlobs.CheckBlock(&w); err != nil {
			return err
		}
	}
	up, err := c.Receive(&w, n, endpoint.Reception{})
	if err != nil {
		return err
	}
	// The content is stored already, but nothing refers to it until StageBlock has written its record.
	defer up.Close()
	result, err := s.state.BlockBlobs.StageBlock(&w, id, up)
	if err != nil {
		return err
	}
	c.SendHashes(up)
	c.SendEncrypted(result.Encryption)
	return c.Status(http.StatusCreated)
}

// mayStageBlocks fails for callers who may only create blobs, if their version is older than 2026-06-06: the first
// whose client libraries test that permission. The reference does not name the version.
func mayStageBlocks(c *call) error {
	if c.EffectiveVersion() < endpoint.V20260606 {
		return c.Holds(endpoint.OfWrites)
	}
	return nil
}

// writeBlock is writeContent for Put Block, which has no conditions but the lease.
func (s *Service) writeBlock(c *call) (w state.Write, err error) {
	w = c.NewUnconditionalWrite()
	if w.If.LeaseID, err = endpoint.LeaseID(c.Headers(), "X-Ms-Lease-Id"); err != nil {
		return w, err
	}
	err = endpoint.EncryptionScope(c.Headers(), c.Identity, &w.Encryption)
	return w, err
}

// getBlockList: https://learn.microsoft.com/rest/api/storageservices/get-block-list
func (s *Service) getBlockList(c *call) error {
	kind := c.Query.Get("blocklisttype")
	var committed, uncommitted bool
	switch strings.ToLower(kind) { // the legacy Java client writes COMMITTED
	case "", "committed":
		committed = true
	case "uncommitted":
		uncommitted = true
	case "all":
		committed, uncommitted = true, true
	default:
		return endpoint.InvalidQuery("blocklisttype", kind)
	}
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	list, err := s.state.BlockBlobs.BlockLists(&r, committed, uncommitted)
	if err != nil {
		return err
	}
	x := wire.NewXML(1024).Open("BlockList")
	if committed {
		writeBlocks(x, "CommittedBlocks", list.Committed)
	}
	if uncommitted {
		writeBlocks(x, "UncommittedBlocks", list.Uncommitted)
	}
	if list.Exists {
		c.SendChanged(list.Changed)
		c.SetInt("x-ms-blob-content-length", list.Length)
	}
	return c.XML(http.StatusOK, x.Close("BlockList"))
}

// writeBlocks writes one list of Get Block List; an empty one as an empty element.
func writeBlocks(x *wire.XML, name string, list []state.Block) {
	if len(list) == 0 {
		x.Empty(name)
		return
	}
	x.Open(name)
	for _, b := range list {
		x.Open("Block").Text("Name", base64.StdEncoding.EncodeToString([]byte(b.ID))).Int("Size", b.Length).Close("Block")
	}
	x.Close(name)
}

// parseBlockList reads the body of Put Block List. It fails with wire.ErrInvalidXMLDocument, errBlockListTooLong or
// errBlockList.
func parseBlockList(body []byte) ([]state.BlockRef, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
	d.CharsetReader = wire.XMLCharset
	// The order of the blocks is that of all elements together, which a struct with a list for each name would lose.
	// RawToken does not compare the end of an element with its start: depth and source do.
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
	// An empty list is valid, and is not nil: nil means that there was no root.
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
const maxBlockListBody = 16 * endpoint.MiB

// putBlockList: https://learn.microsoft.com/rest/api/storageservices/put-block-list
func (s *Service) putBlockList(c *call) error {
	b, w, err := s.newBlob(c, record.BlockBlob, false)
	if err != nil {
		return err
	}
	if _, err := c.ContentLength(maxBlockListBody); err != nil {
		return err
	}
	sent, err := endpoint.ReadTransportHashes(c.Operation, c.Headers())
	if err != nil {
		return err
	}
	body, err := c.ReadBody(maxBlockListBody)
	if err != nil {
		return err
	}
	// The answer has the CRC64 where its version knows it. The MD5 is computed for older versions, and to compare one
	// that was sent.
	o := content.Options{CRC64: sent.HasCRC || c.EffectiveVersion() >= endpoint.V20190202}
	o.MD5 = sent.MD5 != nil || !o.CRC64
	sums := content.Sum(body, o)
	if err := sent.Check(sums); err != nil {
		return err
	}
	refs, err := parseBlockList(body)
	if err != nil {
		return err
	}
	result, err := s.state.BlockBlobs.PutBlockList(&w, &b, refs)
	if err != nil {
		return err
	}
	sendWritten(c, &result)
	if sums.HasCRC64 { // alone, also if the request has an MD5
		c.Set("x-ms-content-crc64", endpoint.FormatCRC(sums.CRC64))
	} else {
		c.Set("Content-MD5", endpoint.FormatMD5(sums.MD5))
	}
	return c.Status(http.StatusCreated)
}
