package blobsvc

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

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
		return invalidQuery("blocklisttype", kind)
	}
	r, err := s.read(c)
	if err != nil {
		return err
	}
	list, err := s.state.BlockLists(&r, committed, uncommitted)
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
		c.sendChanged(list.Changed)
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
