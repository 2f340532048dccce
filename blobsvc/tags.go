package blobsvc

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Limits of blob index tags.
// https://learn.microsoft.com/rest/api/storageservices/set-blob-tags
const (
	MaxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

// validTags checks and orders tags. Keys must be unique.
func validTags(list []Tag) ([]Tag, error) {
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
func (c *call) headerTags() ([]Tag, error) {
	s := c.Header("X-Ms-Tags")
	if s == "" {
		return nil, nil
	}
	if err := c.holdsTags(); err != nil {
		return nil, err
	}
	var list []Tag
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
		if list = append(list, Tag{key, value}); len(list) > MaxTags {
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

func writeTagSet(x *wire.XML, list []Tag) {
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
	var list []Tag
	for _, t := range doc.Tags {
		list = append(list, Tag{t.Key, t.Value})
	}
	if list, err = validTags(list); err != nil {
		return err
	}
	at, err := c.address()
	if err != nil {
		return err
	}
	if at.Snapshot != 0 {
		return errInvalidOperation
	}
	err = s.updateAt(c, at, (*Preconditions).checkTagging, func(tx *store.Tx, gen, slot uint64, b *Blob) error {
		if slot == baseSlot { // queries find the current version alone
			s.unindexTags(tx, c.Account, gen, c.blob, b)
		}
		tags := b.Tags
		c.before.tags = &tags
		if b.Tags = list; slot == baseSlot {
			s.indexTags(tx, c.Account, gen, c.blob, b)
		}
		putBlob(tx, gen, c.blob, slot, b)
		s.note(tx, c, eventProperties, slot, b)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// getBlobTags: https://learn.microsoft.com/rest/api/storageservices/get-blob-tags
func (s *Service) getBlobTags(c *call) error {
	var b Blob
	if _, err := s.viewBlob(c, &b, nil); err != nil {
		return err
	}
	x := wire.NewXML(256).Open("Tags")
	writeTagSet(x, b.Tags)
	return c.XML(http.StatusOK, x.Close("Tags"))
}

// indexTags records that a blob has tags, so that Find Blobs by Tags reads only blobs that have some.
func (s *Service) indexTags(tx *store.Tx, account string, gen uint64, name string, b *Blob) {
	if len(b.Tags) > 0 {
		tx.Put(tagsBucket, tagsKey(account, gen, name, baseSlot), []byte{recordVersion})
	}
}

func (s *Service) unindexTags(tx *store.Tx, account string, gen uint64, name string, b *Blob) {
	if len(b.Tags) > 0 {
		tx.Delete(tagsBucket, tagsKey(account, gen, name, baseSlot))
	}
}
