package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// sendChanged sets ETag and Last-Modified.
func (c *call) sendChanged(changed ticks.Ticks) {
	etag := changed.QuotedHexETag()
	if c.answerVersion() < v20110818 {
		etag = strings.Trim(etag, `"`)
	}
	c.Set("ETag", etag)
	c.Set("Last-Modified", changed.RFC1123())
}

// sendLease sets the headers about a lease.
func (c *call) sendLease(l state.Lease) {
	l = l.At(c.now())
	c.Set("x-ms-lease-status", l.Status())
	if c.answerVersion() < v20120212 {
		return
	}
	c.Set("x-ms-lease-state", l.State.String())
	if kind := l.DurationKind(); kind != "" {
		c.Set("x-ms-lease-duration", kind)
	}
}

// sendOverrides sets the headers that a shared access signature gives instead of the blob's own.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#override-response-headers
func (c *call) sendOverrides() {
	t := c.identity.Token()
	if t == nil {
		return
	}
	for _, h := range [...][2]string{{"Cache-Control", t.CacheControl}, {"Content-Disposition", t.ContentDisposition},
		{"Content-Encoding", t.ContentEncoding}, {"Content-Language", t.ContentLanguage}, {"Content-Type", t.ContentType}} {
		if h[1] != "" {
			c.Set(h[0], h[1])
		}
	}
}

// sendAccessTime sets the header with the last access time, where it is tracked.
func (s *Service) sendAccessTime(c *call, b *state.Blob) {
	if s.accounts.Blob(c.Account).AccessTimes && b.Accessed != 0 {
		c.Set("x-ms-last-access-time", b.Accessed.RFC1123())
	}
}
