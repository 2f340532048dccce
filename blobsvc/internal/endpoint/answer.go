package endpoint

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// SendChanged sets ETag and Last-Modified.
func (c *Call) SendChanged(changed ticks.Ticks) {
	etag := changed.QuotedHexETag()
	if c.AnswerVersion() < V20110818 {
		etag = strings.Trim(etag, `"`)
	}
	c.Set("ETag", etag)
	c.Set("Last-Modified", changed.RFC1123())
}

// SendLease sets the headers about a lease.
func (c *Call) SendLease(l lease.Lease) {
	l = l.At(c.Ticks())
	c.Set("x-ms-lease-status", l.Status())
	if c.AnswerVersion() < v20120212 {
		return
	}
	c.Set("x-ms-lease-state", l.State.String())
	if kind := l.DurationKind(); kind != "" {
		c.Set("x-ms-lease-duration", kind)
	}
}

// SendOverrides sets the headers that a shared access signature gives instead of the blob's own.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#override-response-headers
func (c *Call) SendOverrides() {
	t := c.Identity.Token()
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

// SendAccessTime sets the header with the last access time, where it is tracked.
func (c *Call) SendAccessTime(b *record.Blob) {
	if c.Accounts.Blob(c.Account).AccessTimes && b.Accessed != 0 {
		c.Set("x-ms-last-access-time", b.Accessed.RFC1123())
	}
}
