package blobsvc

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// maxListResults is the size of the largest page, and of a page when none was asked for.
const maxListResults = 5000

// maxResults reads the maxresults parameter. Azure answers a number over 5,000 with a page of 5,000.
func (c *call) maxResults() (int, error) {
	s := c.Query.Get("maxresults")
	if s == "" {
		return maxListResults, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		return 0, invalidQuery("maxresults", s)
	case n < 1:
		return 0, wire.OutOfRangeQuery("maxresults", s, "1", strconv.Itoa(maxListResults))
	}
	return int(min(n, maxListResults)), nil
}

// invalidQuery is wire's error without a reason, which the Blob service does not give.
func invalidQuery(name, value string) error {
	return wire.ErrInvalidQueryParameterValue.With("QueryParameterName", name).With("QueryParameterValue", value)
}

// includes reads the comma-separated include parameter. Each word must be one of known.
func (c *call) includes(known ...string) (map[string]bool, error) {
	set := map[string]bool{}
	s := c.Query.Get("include")
	if s == "" {
		return set, nil
	}
	for _, word := range strings.Split(s, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		found := false
		for _, k := range known {
			found = found || k == word
		}
		if !found {
			return nil, invalidQuery("include", s)
		}
		set[word] = true
	}
	return set, nil
}

// listContainers: https://learn.microsoft.com/rest/api/storageservices/list-containers2
func (s *Service) listContainers(c *call) error {
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	include, err := c.includes("metadata", "deleted", "system")
	if err != nil {
		return err
	}
	prefix, marker := c.Query.Get("prefix"), c.Query.Get("marker")
	start := prefix
	if marker != "" {
		// Markers have the form /account/container, as Azure's do.
		name, ok := strings.CutPrefix(marker, "/"+c.Account+"/")
		if !ok {
			return invalidQuery("marker", marker)
		}
		start = max(start, name)
	}
	x := wire.NewXML(512+512*min(n, 64)).Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	x.Echo("Prefix", prefix).Echo("Marker", marker)
	if c.Query.Has("maxresults") {
		x.Int("MaxResults", int64(n))
	}
	next := ""
	err = s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(containersBucket)
		scope := containerKey(c.Account, "")
		x.Open("Containers")
		for k, v := cur.Seek(containerKey(c.Account, start)); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			name := string(k[len(scope):])
			if !strings.HasPrefix(name, prefix) {
				break
			}
			if name[0] == '$' && name != rootContainer && name != webContainer && !include["system"] {
				continue
			}
			if n--; n < 0 {
				next = "/" + c.Account + "/" + name
				break
			}
			rec, err := decodeContainer(v)
			if err != nil {
				return err
			}
			writeContainer(x, name, &rec, include["metadata"], c.now())
		}
		x.Close("Containers")
		return nil
	})
	if err != nil {
		return err
	}
	x.Text("NextMarker", next).Close("EnumerationResults")
	return c.XML(http.StatusOK, x)
}

func writeContainer(x *wire.XML, name string, rec *containerRecord, metadata bool, now ticks) {
	x.Open("Container").Text("Name", name).Open("Properties")
	x.Text("Last-Modified", rec.changed.rfc1123()).Text("Etag", rec.changed.quotedETag())
	writeLease(x, rec.lease, now)
	if rec.access != "" {
		x.Text("PublicAccess", rec.access)
	}
	x.Bool("HasImmutabilityPolicy", false).Bool("HasLegalHold", false).Close("Properties")
	if metadata {
		x.Metadata(rec.metadata)
	}
	x.Close("Container")
}

func writeLease(x *wire.XML, l lease, now ticks) {
	l = l.at(now)
	x.Text("LeaseStatus", l.status()).Text("LeaseState", l.state.String())
	if kind := l.durationKind(); kind != "" {
		x.Text("LeaseDuration", kind)
	}
}
