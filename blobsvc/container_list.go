package blobsvc

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
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
	l := ContainerListing{Account: c.Account, Prefix: c.Query.Get("prefix"), Deleted: include["deleted"], System: include["system"]}
	marker := c.Query.Get("marker")
	if !l.start(marker) {
		return invalidQuery("marker", marker)
	}
	x := wire.NewXML(512+512*min(n, 64)).Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	x.Echo("Prefix", l.Prefix).Echo("Marker", marker)
	if c.Query.Has("maxresults") {
		x.Int("MaxResults", int64(n))
	}
	next := ""
	x.Open("Containers")
	err = s.db.View(func(tx *store.Tx) error {
		return l.walk(tx, func(name string, rec *Container) (more bool) {
			if n--; n < 0 {
				next = l.marker(name, rec)
				return false
			}
			writeContainer(x, name, rec, include["metadata"], c.now())
			return true
		})
	})
	if err != nil {
		return err
	}
	x.Close("Containers").Text("NextMarker", next).Close("EnumerationResults")
	return c.XML(http.StatusOK, x)
}

// ContainerListing is one request for a page of containers. Deleted ones come before one that has their name now, the first
// deleted first.
type ContainerListing struct {
	Account, Prefix string
	Deleted, System bool
	// from and grave are the keys that the page begins at.
	from, deletedFrom []byte
}

// start reads a marker: /account/container, as Azure's are, and for a deleted container /version after that.
func (l *ContainerListing) start(marker string) bool {
	name := l.Prefix
	l.from, l.deletedFrom = containerKey(l.Account, name), containerKey(l.Account, name)
	if marker == "" {
		return true
	}
	rest, ok := strings.CutPrefix(marker, "/"+l.Account+"/")
	if !ok {
		return false
	}
	rest, version, ofDeleted := strings.Cut(rest, "/")
	name = max(name, rest)
	l.from = containerKey(l.Account, name)
	l.deletedFrom = append(containerKey(l.Account, name), 1) // after all of that name
	if ofDeleted {
		at, ok := parseContainerVersion(version)
		l.deletedFrom = deletedContainerKey(l.Account, name, at)
		return ok
	}
	return true
}

// marker is what start reads.
func (l *ContainerListing) marker(name string, rec *Container) string {
	s := "/" + l.Account + "/" + name
	if rec.Deleted != 0 {
		s += "/" + rec.DeletedVersion()
	}
	return s
}

// walk calls fn for the containers in order until it returns false.
func (l *ContainerListing) walk(tx *store.Tx, fn func(name string, rec *Container) (more bool)) error {
	within := containerKey(l.Account, l.Prefix)
	scope := len(l.Account) + 1
	there := walker{cur: tx.Cursor(containersBucket), within: within}
	there.seek(l.from)
	var graves walker
	if l.Deleted {
		graves = walker{cur: tx.Cursor(deletedContainersBucket), within: within}
		graves.seek(l.deletedFrom)
	}
	for there.key != nil || graves.key != nil {
		w, key := &there, there.key
		if graves.key != nil {
			if g := graves.key[:max(0, len(graves.key)-9)]; there.key == nil || bytes.Compare(g, there.key) <= 0 {
				w, key = &graves, g
			}
		}
		if len(key) <= scope {
			return errKey
		}
		name := string(key[scope:])
		if name[0] != '$' || name == RootContainer || name == WebContainer || l.System {
			rec, err := decodeContainer(w.value)
			if err != nil || !fn(name, &rec) {
				return err
			}
		}
		w.next()
	}
	return nil
}

func writeContainer(x *wire.XML, name string, rec *Container, metadata bool, now ticks.Ticks) {
	x.Open("Container").Text("Name", name)
	if rec.Deleted != 0 {
		x.Text("Version", rec.DeletedVersion()).Bool("Deleted", true)
	}
	x.Open("Properties")
	x.Text("Last-Modified", rec.Changed.RFC1123()).Text("Etag", rec.Changed.QuotedHexETag())
	writeLease(x, rec.Lease, now)
	if rec.Access != "" {
		x.Text("PublicAccess", rec.Access)
	}
	x.Bool("HasImmutabilityPolicy", false).Bool("HasLegalHold", false)
	if rec.Immutable {
		x.Bool("ImmutableStorageWithVersioningEnabled", true)
	}
	if rec.Scope != "" {
		x.Text("DefaultEncryptionScope", rec.Scope).Bool("DenyEncryptionScopeOverride", rec.OnlyScope)
	}
	if rec.Deleted != 0 {
		x.Text("DeletedTime", rec.Deleted.RFC1123()).Int("RemainingRetentionDays", int64(max(0, rec.PurgeAt()-now)/day))
	}
	x.Close("Properties")
	if metadata {
		x.Metadata(rec.Metadata)
	}
	x.Close("Container")
}

func writeLease(x *wire.XML, l Lease, now ticks.Ticks) {
	l = l.At(now)
	x.Text("LeaseStatus", l.Status()).Text("LeaseState", l.State.String())
	if kind := l.DurationKind(); kind != "" {
		x.Text("LeaseDuration", kind)
	}
}
