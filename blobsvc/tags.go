package blobsvc

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of blob index tags.
// https://learn.microsoft.com/rest/api/storageservices/set-blob-tags
const (
	MaxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

// validTags checks and orders tags. Keys must be unique.
func validTags(list []state.Tag) ([]state.Tag, error) {
	if len(list) > MaxTags {
		return nil, errTagsTooMany
	}
	for _, t := range list {
		if t.Key == "" || utf8.RuneCountInString(t.Key) > maxTagKey || utf8.RuneCountInString(t.Value) > maxTagValue ||
			!tagCharacters(t.Key) || !tagCharacters(t.Value) {
			return nil, errInvalidTag
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Key < list[j].Key })
	for i := 1; i < len(list); i++ {
		if list[i].Key == list[i-1].Key {
			return nil, errInvalidTag
		}
	}
	return list, nil
}

// tagCharacters reports whether s has only letters, digits, space and + - . / : = _
func tagCharacters(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(" +-./:=_", rune(c)) {
			return false
		}
	}
	return true
}

// headerTags reads x-ms-tags, which has the form of a query string.
func (c *call) headerTags() ([]state.Tag, error) {
	s := c.Header("X-Ms-Tags")
	if s == "" {
		return nil, nil
	}
	if err := c.holdsTags(); err != nil {
		return nil, err
	}
	var list []state.Tag
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
		if list = append(list, state.Tag{Key: key, Value: value}); len(list) > MaxTags {
			return nil, errTagsTooMany
		}
	}
	return validTags(list)
}

// holdsTags checks the permission for tags, which what sets or tests them by a header, or lists them, needs beside its own.
func (c *call) holdsTags() error {
	return c.identity.Holds(ofTags)
}

var ofTags = auth.Need{On: auth.OnObject, All: "t"}

// tagDocument is the body of Set Blob Tags.
type tagDocument struct {
	XMLName xml.Name `xml:"Tags"`
	Tags    []struct {
		Key   string `xml:"Key"`
		Value string `xml:"Value"`
	} `xml:"TagSet>Tag"`
}

func writeTagSet(x *wire.XML, list []state.Tag) {
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
// Tags are no part of the blob's content: the entity tag stays.
func (s *Service) setBlobTags(c *call) error {
	sent, err := c.transportHashes()
	if err != nil {
		return err
	}
	body, err := c.ReadBody(64 << 10)
	if err != nil {
		return err
	}
	if sent.hasCRC {
		if err := sent.check(content.Sum(body, content.Options{CRC64: true})); err != nil {
			return err
		}
	}
	var doc tagDocument
	if err := wire.ParseXML(body, &doc); err != nil {
		return err
	}
	var list []state.Tag
	for _, t := range doc.Tags {
		list = append(list, state.Tag{Key: t.Key, Value: t.Value})
	}
	if list, err = validTags(list); err != nil {
		return err
	}
	w, err := s.writeAt(c)
	if err != nil {
		return err
	}
	if w.At.Snapshot != 0 {
		return errInvalidOperation
	}
	if err := s.state.SetTags(&w, list); err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// getBlobTags: https://learn.microsoft.com/rest/api/storageservices/get-blob-tags
func (s *Service) getBlobTags(c *call) error {
	r, err := s.read(c)
	if err != nil {
		return err
	}
	tags, err := s.state.Tags(&r)
	if err != nil {
		return err
	}
	x := wire.NewXML(256).Open("Tags")
	writeTagSet(x, tags)
	return c.XML(http.StatusOK, x.Close("Tags"))
}
