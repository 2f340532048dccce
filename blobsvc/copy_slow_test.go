package blobsvc_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// Sources that stop sending delay the pending copies of their own account, and of no other.
func TestSlowSourcesDelayTheirAccountAlone(t *testing.T) {
	t.Parallel()
	web := newSource(t, pattern(1000))
	hold := make(chan struct{})
	defer close(hold)
	web.cut, web.hold = 10, hold
	f := startWith(t, func(c *blobhost.Config) {
		web.allow(c)
		c.CopyTimeout = time.Hour
		manage(c, accountprops.Blob{}, otherAccount(t))
	})
	slow := f.container()
	const copies = 10 // more than are under way at once
	for i := range copies {
		must(slow.NewBlobClient(blockName(i)).StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	}
	web.set(func() { web.cut, web.hold = 0, nil })
	c := f.other().NewContainerClient("box")
	must(c.Create(ctx, nil))(t)
	b := c.NewBlobClient("b")
	must(b.StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	if p := copied(t, b); *p.CopyStatus != blob.CopyStatusTypeSuccess {
		t.Errorf("the other account's copy: %s", *p.CopyStatus)
	}
}

// A source that sends a byte now and then, and so never stops, is given up.
func TestTricklingSourceIsGivenUp(t *testing.T) {
	t.Parallel()
	web := &source{}
	web.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000000")
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = w.Write([]byte("x"))
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(web.Close)
	f := startWith(t, func(c *blobhost.Config) {
		web.allow(c)
		c.CopyTimeout = 2 * time.Second // a slow machine has its answer's head in that time
	})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "", "x-ms-copy-source", web.URL+"/file", "x-ms-blob-type", "BlockBlob").want(t, 500,
		"CannotVerifyCopySource")
	f.do("PUT", "/box/b", "", "x-ms-copy-source", web.URL+"/file").want(t, 202, "")
	b := f.service().NewContainerClient("box").NewBlobClient("b")
	if p := copied(t, b); *p.CopyStatus != blob.CopyStatusTypeFailed {
		t.Errorf("the pending copy: %s", *p.CopyStatus)
	}
}
