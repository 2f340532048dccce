package blobsvc

import "github.com/lazuli-storage/lazuli/blobsvc/internal/state"

// contentHeaders reads the properties that a client gives a new blob. standard takes the HTTP headers where the x-ms-blob-
// ones are absent, as Put Blob does; elsewhere they describe the request's own body.
func (c *call) contentHeaders(standard bool) (h state.Headers, err error) {
	pick := func(own, http string) string {
		if s := c.Header(own); s != "" || !standard || http == "" {
			return s
		}
		return c.Header(http)
	}
	h.ContentType = pick("X-Ms-Blob-Content-Type", "Content-Type")
	h.Encoding = pick("X-Ms-Blob-Content-Encoding", "Content-Encoding")
	h.Language = pick("X-Ms-Blob-Content-Language", "Content-Language")
	h.CacheControl = pick("X-Ms-Blob-Cache-Control", "Cache-Control")
	h.Disposition = c.Header("X-Ms-Blob-Content-Disposition")
	h.DispositionSet = c.HasHeader("X-Ms-Blob-Content-Disposition")
	if s := c.Header("X-Ms-Blob-Content-Md5"); s != "" {
		b, err := parseMD5(s)
		if err != nil {
			return h, err
		}
		h.MD5 = string(b)
	}
	return h, nil
}

// defaultType is the content type of a blob that was given none.
const defaultType = "application/octet-stream"

// newBlob reads what the operations that create a blob have in common: the blob's properties, and what the write depends on.
func (s *Service) newBlob(c *call, kind state.Kind, standard bool) (b state.Blob, w state.Write, err error) {
	b.Kind = kind
	if w, err = s.write(c); err != nil {
		return b, w, err
	}
	if b.Headers, err = c.contentHeaders(standard); err != nil {
		return b, w, err
	}
	if b.Headers.ContentType == "" {
		b.Headers.ContentType = defaultType
	}
	if b.Metadata, err = c.metadata(); err != nil {
		return b, w, err
	}
	if b.Tier, err = c.newTier(kind); err != nil {
		return b, w, err
	}
	if b.Protection, err = c.newProtection(); err != nil {
		return b, w, err
	}
	if b.Expires, err = c.newExpiry(); err != nil {
		return b, w, err
	}
	if b.Tags, err = c.headerTags(); err != nil {
		return b, w, err
	}
	err = c.encryptionScope(&w.Encryption)
	return b, w, err
}
