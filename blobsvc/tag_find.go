package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// findBlobsByTags: https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags
// https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags-container
func (s *Service) findBlobsByTags(c *call) error {
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	include, err := c.includes("none", "versions")
	if err != nil {
		return err
	}
	if include["versions"] {
		return wire.ErrNotImplemented.WithMessage("Finding versions by tags is not implemented.")
	}
	where := c.Query.Get("where")
	if where == "" {
		return wire.MissingQuery("where")
	}
	query, err := state.ParseTagQuery(where, false)
	if err == nil {
		err = query.CheckSearch(c.container != "")
	}
	if err != nil { // as in https://github.com/Azure/azure-sdk-for-go/issues/23546
		return wire.InvalidQuery("where", where, "This query parameter value is invalid.").WithMessage(err.Error())
	}
	q := state.TagSearch{Account: c.Account, Container: c.container, Query: query, Now: c.now(), Max: n, Work: c.Work()}
	if q.From, err = c.marker("marker"); err != nil {
		return err
	}
	found, next, err := s.state.FindByTags(&q)
	if err != nil {
		return err
	}
	x := wire.NewXML(1024).Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	x.Echo("Marker", c.Query.Get("marker")).Quoted("Where", where)
	if c.Query.Has("maxresults") {
		x.Int("MaxResults", int64(n))
	}
	x.Open("Blobs")
	for _, f := range found {
		x.Open("Blob").Text("Name", f.Blob).Text("ContainerName", f.Container).Open("Tags")
		writeTagSet(x, f.Tags)
		x.Close("Tags").Close("Blob")
	}
	x.Close("Blobs")
	return c.XML(http.StatusOK, x.Text("NextMarker", encodeMarker(next)).Close("EnumerationResults"))
}
