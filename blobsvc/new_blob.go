package blobsvc

import (
	"crypto/md5"
	"encoding/base64"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// contentHeaders reads the properties that a client gives a new blob. standard takes the HTTP headers where the
// x-ms-blob- ones are absent, as Put Blob does; elsewhere they describe the request's own body. The MD5 may have any
// length: Azure does not check it where the request has no content that it could be of.
func contentHeaders(sent wire.Headers, standard bool) (h record.Headers, err error) {
	pick := func(own, http string) string {
		if s := sent.Get(own); s != "" || !standard || http == "" {
			return s
		}
		return sent.Get(http)
	}
	h.ContentType = pick("X-Ms-Blob-Content-Type", "Content-Type")
	h.Encoding = pick("X-Ms-Blob-Content-Encoding", "Content-Encoding")
	h.Language = pick("X-Ms-Blob-Content-Language", "Content-Language")
	h.CacheControl = pick("X-Ms-Blob-Cache-Control", "Cache-Control")
	h.Disposition = sent.Get("X-Ms-Blob-Content-Disposition")
	h.DispositionSet = sent.Has("X-Ms-Blob-Content-Disposition")
	if s := sent.Get("X-Ms-Blob-Content-Md5"); s != "" {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return h, wire.ErrInvalidMD5
		}
		h.MD5 = string(b)
	}
	return h, nil
}

// newBlob parses the part that all operations that create a blob have in common: the blob's properties, and the
// conditions of the write.
func (s *Service) newBlob(c *call, kind record.Kind, standard bool) (b record.Blob, w state.Write, err error) {
	b.Kind = kind
	h := c.Headers()
	if w, err = c.NewWrite(); err != nil {
		return b, w, err
	}
	if b.Headers, err = contentHeaders(h, standard); err != nil {
		return b, w, err
	}
	if kind == record.BlockBlob && b.Headers.MD5 != "" && len(b.Headers.MD5) != md5.Size {
		return b, w, wire.ErrInvalidMD5
	}
	if b.Headers.ContentType == "" {
		b.Headers.ContentType = endpoint.DefaultType
	}
	if b.Metadata, err = metadata(c.Metadata()); err != nil {
		return b, w, err
	}
	// In a tree the mark is no metadata: it makes the blob a directory.
	if s.storage.Hierarchical(c.Account) {
		var folder bool
		if b.Metadata, folder = endpoint.WithoutFolderMark(b.Metadata); folder {
			w.Node = &tree.NewNode{Directory: true}
		}
	}
	if b.Tier, err = newTier(h.Get(tierHeader), c.EffectiveVersion(), kind); err != nil {
		return b, w, err
	}
	if b.Protection, err = newProtection(h, c.Now, c.Identity); err != nil {
		return b, w, err
	}
	if b.Expires, err = c.NewExpiry(); err != nil {
		return b, w, err
	}
	if b.Tags, err = headerTags(h, c.Identity); err != nil {
		return b, w, err
	}
	err = endpoint.EncryptionScope(h, c.Identity, &w.Encryption)
	return b, w, err
}

// metadata returns the x-ms-meta headers as a record has them, with the error of reading them; nil if none exists.
func metadata(list []wire.Meta, err error) ([]record.Meta, error) {
	if list == nil || err != nil {
		return nil, err
	}
	out := make([]record.Meta, len(list))
	for i, m := range list {
		out[i] = record.Meta(m)
	}
	return out, nil
}

// parseTier reads an access tier of block blobs, in any case. Versions before 2021-12-02 do not know the tier Cold.
// https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview#cold-tier
func parseTier(s string, v wire.Version) (string, bool) {
	if strings.EqualFold(s, "Cold") && v < endpoint.V20211202 {
		return "", false
	}
	for _, tier := range [...]string{"Hot", "Cool", "Cold", record.ArchiveTier, record.SmartTier} {
		if strings.EqualFold(s, tier) {
			return tier, true
		}
	}
	return "", false
}

// tierHeader has the access tier of a blob.
const tierHeader = "X-Ms-Access-Tier"

// newTier reads the value of x-ms-access-tier of an operation that creates a blob. Page blob tiers exist on premium
// accounts alone.
func newTier(s string, v wire.Version, kind record.Kind) (string, error) {
	if s == "" {
		return "", nil
	}
	tier, ok := parseTier(s, v)
	if !ok {
		return "", wire.InvalidHeader("x-ms-access-tier", s)
	}
	switch {
	case kind == record.BlockBlob:
	case tier == record.DefaultTier: // which such blobs are in, and are listed with
		return "", nil
	default:
		return "", state.ErrTier
	}
	return tier, nil
}

// highPriority reads x-ms-rehydrate-priority. It reports whether a blob is to leave the archive with high priority.
func highPriority(h wire.Headers) (bool, error) {
	priority, err := h.Word("X-Ms-Rehydrate-Priority", "High", "Standard")
	return priority == "High", err
}

// policyHeaders reads the headers of an immutability policy; until is 0 if none exists. sent says whether a mode was.
func policyHeaders(h wire.Headers, now time.Time) (p record.Protection, sent bool, err error) {
	mode, err := h.Word("X-Ms-Immutability-Policy-Mode", "unlocked", "locked")
	if err != nil {
		return p, false, err
	}
	p.Locked = mode == "locked"
	text := h.Get("X-Ms-Immutability-Policy-Until-Date")
	if text == "" {
		if mode != "" {
			err = wire.MissingHeader(untilHeader)
		}
		return p, false, err
	}
	until, err := wire.ParseRFC1123(text)
	if err != nil || !until.After(now) {
		return p, false, wire.InvalidHeader(untilHeader, text)
	}
	p.Until = ticks.Of(until)
	return p, mode != "", nil
}

// newProtection parses the immutability policy and legal hold of an operation that writes a blob, and makes sure that
// the caller may set them.
func newProtection(h wire.Headers, now time.Time, by auth.Identity) (p record.Protection, err error) {
	if p, _, err = policyHeaders(h, now); err != nil {
		return p, err
	}
	if p.Hold, _, err = h.Flag(legalHold); err == nil && p != (record.Protection{}) {
		err = by.Holds(endpoint.Immutable) // beside what the write needs
	}
	return p, err
}

const (
	legalHold   = "X-Ms-Legal-Hold"
	untilHeader = "x-ms-immutability-policy-until-date"
	modeHeader  = "x-ms-immutability-policy-mode"
	holdHeader  = "x-ms-legal-hold"
)

// headerTags reads x-ms-tags, which has the form of a query string. An empty one sets no tags and needs the permission
// for them as well: https://github.com/kahing/goofys/pull/816
func headerTags(h wire.Headers, by auth.Identity) ([]record.Tag, error) {
	if !h.Has("X-Ms-Tags") {
		return nil, nil
	}
	if err := by.Holds(endpoint.OfTags); err != nil {
		return nil, err
	}
	s := h.Get("X-Ms-Tags")
	if s == "" {
		return nil, nil
	}
	return parseTags(s)
}
