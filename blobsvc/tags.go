package blobsvc

import (
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// Limits of blob index tags.
// https://learn.microsoft.com/rest/api/storageservices/set-blob-tags
const (
	maxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

// tagDocument is the body of Set Blob Tags.
type tagDocument struct {
	XMLName xml.Name `xml:"Tags"`
	Tags    []struct {
		Key   string `xml:"Key"`
		Value string `xml:"Value"`
	} `xml:"TagSet>Tag"`
}

func writeTagSet(x *wire.XML, list []record.Tag) {
	if len(list) == 0 {
		x.Empty("TagSet")
		return
	}
	x.Open("TagSet")
	for _, t := range list {
		x.Open("Tag").Text("Key", t.Key).Text("Value", t.Value).Close("Tag")
	}
	x.Close("TagSet")
}

// setBlobTags: https://learn.microsoft.com/rest/api/storageservices/set-blob-tags
// Tags are not part of the blob's content, so the ETag does not change.
func (s *Service) setBlobTags(c *call) error {
	sent, err := endpoint.ReadTransportHashes(c.Operation, c.Headers())
	if err != nil {
		return err
	}
	body, err := c.ReadBody(64 << 10)
	if err != nil {
		return err
	}
	// An MD5 was checked by ReadBody.
	if sent.HasCRC {
		if err := sent.Check(content.Sum(body, content.Options{CRC64: true})); err != nil {
			return err
		}
	}
	var doc tagDocument
	if err := wire.ParseXML(body, &doc); err != nil {
		return err
	}
	var list []record.Tag
	for _, t := range doc.Tags {
		list = append(list, record.Tag{Key: t.Key, Value: t.Value})
	}
	if list, err = validTags(list); err != nil {
		return err
	}
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	if w.At.Snapshot != 0 {
		return endpoint.ErrInvalidOperation
	}
	conditions, err := c.Headers().TagConditions()
	if err != nil {
		return err
	}
	w.If.Conditions = state.Conditions(conditions)
	if err := s.state.Tags.Set(&w, list); err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// getBlobTags: https://learn.microsoft.com/rest/api/storageservices/get-blob-tags
func (s *Service) getBlobTags(c *call) error {
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	conditions, err := c.Headers().TagConditions()
	if err != nil {
		return err
	}
	own := conditions != wire.Conditions{}
	if own {
		r.If.Conditions = state.Conditions(conditions)
	}
	tags, err := s.state.Tags.Get(&r)
	if own && (errors.Is(err, state.ErrNotModified) || errors.Is(err, state.ErrUnsatisfiable)) {
		err = state.ErrConditionNotMet // never 304
	}
	if err != nil {
		return err
	}
	x := wire.NewXML(256).Open("Tags")
	writeTagSet(x, tags)
	return c.XML(http.StatusOK, x.Close("Tags"))
}

// findBlobsByTags: https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags
// https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags-container
func (s *Service) findBlobsByTags(c *call) error {
	n, err := endpoint.MaxResults(c.Query)
	if err != nil {
		return err
	}
	include, err := includes(c.Query, "none", "versions")
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
		err = query.CheckSearch(c.Container != "")
	}
	if err != nil { // as in https://github.com/Azure/azure-sdk-for-go/issues/23546
		return wire.InvalidQuery("where", where, "This query parameter value is invalid.").WithMessage(err.Error())
	}
	q := state.TagSearch{Account: c.Account, Container: c.Container, Query: query, Now: c.Ticks(), Max: n, Work: c.Work()}
	if q.From, err = endpoint.Marker(c.Query, "marker"); err != nil {
		return err
	}
	found, next, err := s.state.Tags.Find(&q)
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
	return c.XML(http.StatusOK, x.Text("NextMarker", endpoint.EncodeMarker(next)).Close("EnumerationResults"))
}

// validTags checks and orders tags. Keys must be unique.
func validTags(list []record.Tag) ([]record.Tag, error) {
	if len(list) > maxTags {
		return nil, endpoint.ErrTagsTooMany
	}
	for _, t := range list {
		if t.Key == "" || utf8.RuneCountInString(t.Key) > maxTagKey || utf8.RuneCountInString(t.Value) > maxTagValue ||
			!tagCharacters(t.Key) || !tagCharacters(t.Value) {
			return nil, endpoint.ErrInvalidTag
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Key < list[j].Key })
	for i := 1; i < len(list); i++ {
		if list[i].Key == list[i-1].Key {
			return nil, endpoint.ErrInvalidTag
		}
	}
	return list, nil
}

// tagCharacters reports whether s has only letters, digits, space and + - . / : = _
func tagCharacters(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			!strings.ContainsRune(" +-./:=_", rune(c)) {
			return false
		}
	}
	return true
}

// parseTags parses the value of x-ms-tags.
func parseTags(s string) ([]record.Tag, error) {
	var list []record.Tag
	for part := range strings.SplitSeq(s, "&") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, wire.InvalidHeader("x-ms-tags", s)
		}
		var err1, err2 error
		key, err1 = url.QueryUnescape(key)
		value, err2 = url.QueryUnescape(value)
		if err1 != nil || err2 != nil {
			return nil, wire.InvalidHeader("x-ms-tags", s)
		}
		if list = append(list, record.Tag{Key: key, Value: value}); len(list) > maxTags {
			return nil, endpoint.ErrTagsTooMany
		}
	}
	return validTags(list)
}
