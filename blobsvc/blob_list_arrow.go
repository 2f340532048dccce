package blobsvc

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/arrow"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

const arrowStream = "application/vnd.apache.arrow.stream"

// acceptsArrow reports whether the caller takes a listing in the Arrow format; clients that do accept XML, too.
func acceptsArrow(c *call) bool {
	return c.EffectiveVersion() >= endpoint.V20261006 && strings.Contains(c.Header("Accept"), arrowStream)
}

// listArrow answers List Blobs in the Arrow format. The reference does not describe it: names and types of columns, and
// the schema's metadata, are those that the client libraries of version 2026-10-06 read.
func (s *Service) listArrow(c *call, l *listing.Blobs, o *itemOptions) error {
	w := newArrowItems(o)
	changed, only, err := s.changedBlobs(c, l)
	if err != nil {
		return err
	}
	var batches []byte
	var next []byte
	rows := 0
	for left := l.Max; ; {
		// The changes are the only batch: next stays nil.
		if only {
			err = s.writeChanged(c, changed, w.write)
		} else {
			l.Max = min(left, listBatch)
			left -= l.Max
			next, err = s.state.Blobs.List(c.Account, c.Container, l, w.write)
		}
		if err != nil {
			return err
		}
		rows += w.Rows()
		batches = w.AppendBatch(batches)
		// The continuation token stands at the beginning of the page, so that the page is held in memory.
		if next == nil || left == 0 || l.Short || len(batches) >= budget.Answer {
			break
		}
		l.From = next
	}
	batches = arrow.AppendEnd(batches)
	schema := w.AppendSchema(nil, []arrow.Pair{{Key: "NextMarker", Value: endpoint.EncodeMarker(next)},
		{Key: "NumberOfRecords", Value: strconv.Itoa(rows)}})
	c.Set("Content-Type", arrowStream)
	c.SetInt("Content-Length", int64(len(schema)+len(batches)))
	c.Out.WriteHeader(http.StatusOK)
	_, _ = c.Out.Write(schema)
	_, _ = c.Out.Write(batches)
	return nil
}

// arrowFields are the columns of a listing that are always there. Those of metadata and tags are there if the request
// includes them.
var arrowFields = func() []arrow.Field {
	var list []arrow.Field
	for _, group := range []struct {
		kind  arrow.Kind
		names string
	}{
		{arrow.String, "Name ResourceType Snapshot VersionId Etag Content-Type Content-Encoding Content-Language " +
			"Content-MD5 Content-Disposition " +
			"Cache-Control BlobType AccessTier SmartAccessTier ArchiveStatus RehydratePriority LeaseStatus LeaseState " +
			"LeaseDuration CopyId CopyStatus " +
			"CopySource CopyProgress CopyStatusDescription CopyDestinationSnapshot CustomerProvidedKeySha256 EncryptionScope " +
			"ImmutabilityPolicyMode"},
		{arrow.Bool, "Deleted IsCurrentVersion HasVersionsOnly AccessTierInferred ServerEncrypted IncrementalCopy Sealed " +
			"LegalHold"},
		{arrow.TimestampMicros, "Creation-Time Last-Modified AccessTierChangeTime CopyCompletionTime DeletedTime " +
			"Expiry-Time LastAccessTime " +
			"ImmutabilityPolicyUntilDate"},
		// The SDK for .NET reads unsigned numbers alone, and takes a column of another type for one without values.
		{arrow.Uint64, "Content-Length x-ms-blob-sequence-number RemainingRetentionDays TagCount"},
	} {
		for name := range strings.FieldsSeq(group.names) {
			list = append(list, arrow.Field{Name: name, Kind: group.kind})
		}
	}
	return list
}()

// permissionFields are the columns that follow arrowFields if the request includes permissions.
var permissionFields = []arrow.Field{{Name: "Owner", Kind: arrow.String}, {Name: "Group", Kind: arrow.String},
	{Name: "Permissions", Kind: arrow.String}, {Name: "Acl", Kind: arrow.String}}

// arrowColumns has the positions of arrowFields and permissionFields.
var arrowColumns = func() map[string]int {
	m := make(map[string]int, len(arrowFields)+len(permissionFields))
	for i, f := range append(slices.Clip(arrowFields), permissionFields...) {
		m[f.Name] = i
	}
	return m
}()

// arrowItems writes the items of a listing as rows.
type arrowItems struct {
	*arrow.Writer
	*itemOptions
	metadataAt, tagsAt int // columns
	pairs              []arrow.Pair
}

func newArrowItems(o *itemOptions) *arrowItems {
	w := &arrowItems{itemOptions: o}
	fields := slices.Clip(arrowFields)
	if o.permissions {
		fields = append(fields, permissionFields...)
	}
	if o.metadata {
		w.metadataAt = len(fields)
		fields = append(fields, arrow.Field{Name: "Metadata", Kind: arrow.StringMap})
	}
	if o.tags {
		w.tagsAt = len(fields)
		fields = append(fields, arrow.Field{Name: "Tags", Kind: arrow.StringMap})
	}
	w.Writer = arrow.NewWriter(fields)
	return w
}

func (w *arrowItems) write(item listing.Item) error {
	if item.Prefix != "" {
		w.text("Name", item.Prefix)
		const kind = "blobprefix" // by which clients tell it from a blob
		if w.hasDirectory(&item) {
			w.directory(w, item.Blob, kind)
		} else {
			w.text("ResourceType", kind)
		}
		w.EndRow()
		return nil
	}
	w.text("Name", item.Name)
	b := item.Blob
	if b == nil {
		uncommitted(w)
		w.EndRow()
		return nil
	}
	w.flags(w, &item)
	w.properties(w, b)
	if w.metadata && b.Encryption.KeySHA256 == "" { // which protects the metadata as well
		w.pairs = w.pairs[:0]
		for _, m := range listedMetadata(b) {
			w.pairs = append(w.pairs, arrow.Pair{Key: m.Name, Value: validText(m.Value)})
		}
		if len(w.pairs) > 0 {
			w.Column(w.metadataAt).Map(w.pairs)
		}
	}
	if w.tags && len(b.Tags) > 0 {
		w.pairs = w.pairs[:0]
		for _, t := range b.Tags {
			w.pairs = append(w.pairs, arrow.Pair(t))
		}
		w.Column(w.tagsAt).Map(w.pairs)
	}
	w.EndRow()
	return nil
}

// validText replaces what is not UTF-8: headers can have any bytes.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// column returns the column of a property.
func (w *arrowItems) column(name string) *arrow.Column {
	i, ok := arrowColumns[name]
	if !ok {
		panic("blobsvc: no Arrow column for " + name)
	}
	return w.Column(i)
}

// The methods of itemWriter. Empty text is null, and Content-CRC64 has no column.

func (w *arrowItems) text(name, value string) {
	if value != "" && name != "Content-CRC64" {
		w.column(name).String(validText(value))
	}
}

func (w *arrowItems) int(name string, n int64) { w.column(name).Int(n) }

func (w *arrowItems) time(name string, t ticks.Ticks) {
	w.column(name).Int(t.Time().UnixMicro() / 1e6 * 1e6) // whole seconds, as in the headers
}

func (w *arrowItems) bool(name string, b bool) { w.column(name).Bool(b) }

func (w *arrowItems) etag(changed ticks.Ticks) { w.text("Etag", string(changed.AppendHexETag(nil))) }

func (w *arrowItems) md5(sum string) {
	w.text("Content-MD5", base64.StdEncoding.EncodeToString([]byte(sum)))
}
