package blobsvc

import (
	"bytes"
	"encoding/binary"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// containerTerm is the key by which a query of the whole account limits itself to a container.
const containerTerm = "@container"

// findBlobsByTags: https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags
// https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags-container
// It reads the blobs that have tags, and no others.
func (s *Service) findBlobsByTags(c *call) error {
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	where := c.Query.Get("where")
	if where == "" {
		return wire.MissingQuery("where")
	}
	query, ok := ParseTagQuery(where, false)
	if !ok {
		return invalidQuery("where", where)
	}
	for _, q := range query.anyOf[0] {
		if q.key == containerTerm && (q.op != "=" || c.container != "") {
			return invalidQuery("where", where)
		}
	}
	var from []byte
	if marker := c.Query.Get("marker"); marker != "" {
		if from, ok = decodeMarker(marker); !ok {
			return invalidQuery("marker", marker)
		}
	}
	x := wire.NewXML(1024).Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	x.Text("Where", where)
	var next []byte
	err = s.db.View(func(tx *store.Tx) error {
		names, err := containerNames(tx, c)
		if err != nil {
			return err
		}
		x.Open("Blobs")
		scope := containerKey(c.Account, "")
		if c.container != "" {
			for gen := range names {
				scope = binary.BigEndian.AppendUint64(scope, gen)
			}
		}
		account := len(containerKey(c.Account, ""))
		start := append(bytes.Clone(scope[:account]), from...)
		if bytes.Compare(start, scope) < 0 {
			start = scope
		}
		cur := tx.Cursor(tagsBucket)
		for k, _ := cur.Seek(start); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
			gen, name, slot, err := parseBlobKey(k[account:])
			if err != nil {
				return err
			}
			container, ok := names[gen]
			if !ok { // deleted, not yet collected
				continue
			}
			var b Blob
			if err := getBlob(tx, gen, string(name), slot, &b); err != nil {
				return err
			}
			if !query.Matches(append(b.Tags, Tag{containerTerm, container})) {
				continue
			}
			if n--; n < 0 {
				next = bytes.Clone(k[account:])
				break
			}
			writeFound(x, string(name), container, matched(query, b.Tags))
		}
		x.Close("Blobs")
		return nil
	})
	if err != nil {
		return err
	}
	return c.XML(http.StatusOK, x.Text("NextMarker", encodeMarker(next)).Close("EnumerationResults"))
}

// containerNames returns the generations of the containers that are searched, with their names.
func containerNames(tx *store.Tx, c *call) (map[uint64]string, error) {
	if c.container != "" {
		gen, err := containerGen(tx, c.Account, c.container)
		return map[uint64]string{gen: c.container}, err
	}
	names := map[uint64]string{}
	scope := containerKey(c.Account, "")
	cur := tx.Cursor(containersBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		rec, err := decodeContainer(v)
		if err != nil {
			return nil, err
		}
		names[rec.generation] = string(k[len(scope):])
	}
	return names, nil
}

// matched returns those tags that the query names.
func matched(q *TagQuery, tags []Tag) (out []Tag) {
	for _, t := range tags {
		for _, cmp := range q.anyOf[0] {
			if cmp.key == t.Key {
				out = append(out, t)
				break
			}
		}
	}
	return out
}

func writeFound(x *wire.XML, name, container string, tags []Tag) {
	x.Open("Blob").Text("Name", name).Text("ContainerName", container).Open("Tags")
	writeTagSet(x, tags)
	x.Close("Tags").Close("Blob")
}
