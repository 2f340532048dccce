package lakesvc

import (
	"encoding/base64"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// errPropertyName: a name in x-ms-properties that no property can have.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update#response
var errPropertyName = endpoint.Fail(http.StatusBadRequest, "InvalidPropertyName",
	"The property name contains invalid characters.")

// readMetadata reads x-ms-properties: "name=value,..." with values in base64, which stand for ASCII. sent is set if the
// header is there, which may be empty.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update
func readMetadata(h wire.Headers) (list []record.Meta, sent bool, err error) {
	const header = "X-Ms-Properties"
	s := h.Get(header)
	if s == "" {
		return nil, h.Has(header), nil
	}
	size := 0
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		text, err := base64.StdEncoding.DecodeString(value)
		if !ok || err != nil || seen[strings.ToLower(name)] {
			return nil, true, wire.InvalidHeader("x-ms-properties", s)
		}
		if name == "" {
			return nil, true, errPropertyName.WithMessage("A property name cannot be empty.")
		}
		// The Blob endpoint sends the name as a part of that of a header.
		if strings.ContainsAny(name, " \t\"(),/:;<=>?@[\\]{}") {
			return nil, true, errPropertyName
		}
		if !wire.ASCII(string(text)) || !wire.ASCII(name) {
			return nil, true, wire.ErrInvalidMetadata
		}
		seen[strings.ToLower(name)] = true
		size += len(name) + len(text)
		list = append(list, record.Meta{Name: name, Value: string(text)})
	}
	if size > wire.MetadataLimit {
		return nil, true, wire.ErrMetadataTooLarge
	}
	sort.Slice(list, func(i, j int) bool { return strings.ToLower(list[i].Name) < strings.ToLower(list[j].Name) })
	return list, true, nil
}

// sendMetadata sets x-ms-properties.
func sendMetadata(c *call, list []record.Meta) {
	var b strings.Builder
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m.Name + "=" + base64.StdEncoding.EncodeToString([]byte(m.Value)))
	}
	if len(list) > 0 {
		c.Set("x-ms-properties", b.String())
	}
}

func sendNamespace(c *call, hierarchical bool) {
	c.Set("x-ms-namespace-enabled", strconv.FormatBool(hierarchical))
}

// listFilesystems: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/filesystem/list
func (s *Service) listFilesystems(c *call) error {
	n, err := endpoint.MaxResults(c.Query)
	if err != nil {
		return err
	}
	type properties struct {
		Scope    string `json:"DefaultEncryptionScope"`
		OnlyThis bool   `json:"DenyEncryptionScopeOverride"`
	}
	type filesystem struct {
		ETag         string `json:"etag"`
		LastModified string `json:"lastModified"`
		Name         string `json:"name"`
		properties
	}
	doc := struct {
		Filesystems []filesystem `json:"filesystems"`
	}{Filesystems: []filesystem{}}
	l := listing.Containers{Account: c.Account, Prefix: c.Query.Get("prefix")}
	if !l.Start(c.Query.Get("continuation")) {
		return endpoint.InvalidQuery("continuation", c.Query.Get("continuation"))
	}
	err = s.State.Containers.List(&l, func(name string, rec *record.Container) (more bool) {
		if len(doc.Filesystems) == n {
			c.Set("x-ms-continuation", l.Marker(name, rec))
			return false
		}
		doc.Filesystems = append(doc.Filesystems, filesystem{rec.Changed.HexETag(), rec.Changed.RFC1123(), name,
			properties{encryption.ID{Scope: rec.Scope}.ScopeName(), rec.OnlyScope}})
		return true
	})
	if err != nil {
		return err
	}
	return sendJSON(c.Request, http.StatusOK, &doc)
}

// createFilesystem: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/filesystem/create
func (s *Service) createFilesystem(c *call) error {
	metadata, _, err := readMetadata(c.Headers())
	if err != nil {
		return err
	}
	if err := c.CreateContainer(record.Container{Metadata: metadata}); err != nil {
		return err
	}
	sendNamespace(c, s.Hierarchical(c.Account))
	return c.Status(http.StatusCreated)
}

// setFilesystemProperties:
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/filesystem/set-properties
func (s *Service) setFilesystemProperties(c *call) error {
	metadata, _, err := readMetadata(c.Headers())
	if err != nil {
		return err
	}
	return c.ChangeContainerMetadata(metadata)
}

// getFilesystemProperties:
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/filesystem/get-properties
func (s *Service) getFilesystemProperties(c *call) error {
	rec, err := c.GetContainer()
	if err != nil {
		return err
	}
	c.SendChanged(rec.Changed)
	sendMetadata(c, rec.Metadata)
	sendNamespace(c, rec.Hierarchical())
	c.Set("x-ms-default-encryption-scope", encryption.ID{Scope: rec.Scope}.ScopeName())
	c.Set("x-ms-deny-encryption-scope-override", strconv.FormatBool(rec.OnlyScope))
	return c.Status(http.StatusOK)
}
