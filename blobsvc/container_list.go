package blobsvc

import (
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// includes reads the comma-separated include parameter. Each word must be one of known.
func includes(q wire.Query, known ...string) (map[string]bool, error) {
	set := map[string]bool{}
	s := q.Get("include")
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
			return nil, endpoint.InvalidQuery("include", s)
		}
		set[word] = true
	}
	return set, nil
}

// listContainers: https://learn.microsoft.com/rest/api/storageservices/list-containers2
func (s *Service) listContainers(c *call) error {
	n, err := endpoint.MaxResults(c.Query)
	if err != nil {
		return err
	}
	include, err := includes(c.Query, "metadata", "deleted", "system")
	if err != nil {
		return err
	}
	l := listing.Containers{Account: c.Account, Prefix: c.Query.Get("prefix"), Deleted: include["deleted"],
		System: include["system"]}
	marker := c.Query.Get("marker")
	if !l.Start(marker) {
		return wire.ErrOutOfRangeInput // recorded: ListContainersSegmentAsync_Error of the SDK for .NET
	}
	x := wire.NewXML(512+512*min(n, 64)).Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	x.Echo("Prefix", l.Prefix).Echo("Marker", marker)
	if c.Query.Has("maxresults") {
		x.Int("MaxResults", int64(n))
	}
	next := ""
	x.Open("Containers")
	err = s.state.Containers.List(&l, func(name string, rec *record.Container) (more bool) {
		// The first record that is not in the page is read as well: its name is where the next page begins.
		if n--; n < 0 || len(x.Bytes()) > budget.Answer {
			next = l.Marker(name, rec)
			return false
		}
		writeContainer(c, x, name, rec, include["metadata"])
		return true
	})
	if err != nil {
		return err
	}
	x.Close("Containers").Text("NextMarker", next).Close("EnumerationResults")
	return c.XML(http.StatusOK, x)
}

// beingDeleted is for how long after its deletion a container has a lease of Azure's own (recorded).
const beingDeleted = ticks.Ticks(30 * time.Second / 100)

func writeContainer(c *call, x *wire.XML, name string, rec *record.Container, metadata bool) {
	// The elements have Azure's order, and an answer of an older version has none that came later, as on Azure: clients of
	// that time were not written for them.
	now, version := c.Ticks(), c.EffectiveVersion()
	x.Open("Container").Text("Name", name)
	if rec.Deleted != 0 {
		x.Bool("Deleted", true).Text("Version", rec.DeletedVersion())
	}
	x.Open("Properties")
	x.Text("Last-Modified", rec.Changed.RFC1123()).Text("Etag", rec.Changed.QuotedHexETag())
	switch {
	case rec.Deleted == 0:
		writeLease(x, rec.Lease, now)
	case now < rec.Deleted+beingDeleted:
		x.Text("LeaseStatus", "locked").Text("LeaseState", "leased").Text("LeaseDuration", "fixed")
	default:
		x.Text("LeaseStatus", "unlocked").Text("LeaseState", "expired")
	}
	if rec.Access != "" && version >= endpoint.V20160531 {
		x.Text("PublicAccess", rec.Access)
	}
	if version >= endpoint.V20171109 {
		x.Bool("HasImmutabilityPolicy", false).Bool("HasLegalHold", false)
	}
	if rec.Immutable {
		x.Bool("ImmutableStorageWithVersioningEnabled", true)
	}
	if rec.Scope != "" {
		x.Text("DefaultEncryptionScope", rec.Scope).Bool("DenyEncryptionScopeOverride", rec.OnlyScope)
	}
	if rec.Deleted != 0 {
		x.Text("DeletedTime", rec.Deleted.RFC1123()).Int("RemainingRetentionDays", rec.RemainingDays(now))
	}
	x.Close("Properties")
	if metadata {
		x.Metadata(wireMetadata(rec.Metadata))
	}
	x.Close("Container")
}

func writeLease(x *wire.XML, l lease.Lease, now ticks.Ticks) {
	l = l.At(now)
	x.Text("LeaseStatus", l.Status()).Text("LeaseState", l.State.String())
	if kind := l.DurationKind(); kind != "" {
		x.Text("LeaseDuration", kind)
	}
}
