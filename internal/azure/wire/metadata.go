package wire

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// Meta is a name and a value of a resource's metadata. Names keep the case in which they were sent over HTTP/1, and are
// compared without case.
type Meta struct{ Name, Value string }

// MetadataLimit bounds the size in bytes of all names and values of a resource's metadata.
const MetadataLimit = 8 << 10

const metaPrefix = "X-Ms-Meta-"

// Metadata returns the x-ms-meta-* headers, ordered by name. It fails with [ErrEmptyMetadataKey], [ErrInvalidMetadata]
// or [ErrMetadataTooLarge]. Several headers of one name are joined with a comma. Values outside ASCII are invalid:
// https://github.com/Azure/azure-sdk-for-net/issues/50747
// https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources
func (r *Request) Metadata() ([]Meta, error) {
	var list []Meta
	size := 0
	for key, values := range r.HTTP.Header {
		if !strings.HasPrefix(key, metaPrefix) {
			continue
		}
		// net/http changed the case of the name; clients compare it as they wrote it.
		name := headercase.Original(r.HTTP.Context(), strings.ToLower(key))[len(metaPrefix):]
		if name == "" {
			return nil, ErrEmptyMetadataKey
		}
		if !identifier(name) {
			return nil, ErrInvalidMetadata
		}
		value := strings.Join(values, ",")
		if !ASCII(value) {
			return nil, ErrInvalidMetadata
		}
		size += len(name) + len(value)
		list = append(list, Meta{name, value})
	}
	// Checked after the loop: the size is of all headers, whose number the server has bounded before.
	if size > MetadataLimit {
		return nil, ErrMetadataTooLarge
	}
	// A map has no order, and what is stored and signed must have one.
	sort.Slice(list, func(i, j int) bool { return strings.ToLower(list[i].Name) < strings.ToLower(list[j].Name) })
	return list, nil
}

// SetMetadata sends list as x-ms-meta-* headers.
func (r *Request) SetMetadata(list []Meta) {
	h := r.Out.Header()
	for _, m := range list {
		h["x-ms-meta-"+m.Name] = []string{m.Value}
	}
}

// ASCII reports whether s consists of characters of ASCII.
func ASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// identifier reports whether s is a C# identifier of ASCII characters, which metadata names must be.
func identifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
