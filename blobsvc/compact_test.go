package blobsvc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
)

// Interrupted uploads, and blobs that were deleted, leave no bytes behind.
func TestCompactFolder(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for i := range 6 {
		hr := f.request("PUT", fmt.Sprint("/box/b", i), strings.Repeat("x", 3<<20), "x-ms-blob-type", "BlockBlob")
		hr.Body = io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20)), failing{}))
		if resp, err := http.DefaultTransport.RoundTrip(hr); err == nil {
			resp.Body.Close()
			t.Fatalf("answer %d to a broken body", resp.StatusCode)
		}
		f.do("PUT", fmt.Sprint("/box/gone", i), string(randomBytes(1<<20)), "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		f.do("DELETE", fmt.Sprint("/box/gone", i), "").want(t, 202, "")
	}
	for i := range 300 { // small ones, of which each second stays
		f.do("PUT", fmt.Sprint("/box/small", i), "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		if i%2 == 0 {
			f.do("DELETE", fmt.Sprint("/box/small", i), "").want(t, 202, "")
		}
	}
	kept := string(randomBytes(100 << 10))
	f.do("PUT", "/box/kept", kept, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	svc := f.svc
	f.svc = nil
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	var moved, toMove int64
	before, after, err := maintain.CompactFolder(ctx, f.dir+"/blobs.db", f.dir+"/extents", nil, 0,
		func(done, total int64) { moved, toMove = done, total })
	if err != nil {
		t.Fatal(err)
	}
	if before < 6<<20 || after > 103<<10 {
		t.Errorf("%d bytes before, %d after; 100 KiB are referred to, and 2.5 KiB of headers", before, after)
	}
	if moved != toMove || moved < 100<<10 {
		t.Errorf("at the end %d of %d bytes are moved", moved, toMove)
	}
	audit, err := offline.Check(f.dir+"/blobs.db", f.dir+"/extents",
		offline.CheckOptions{Report: func(err error) { t.Error(err) }})
	if err != nil || audit.Dead != 0 || audit.Blobs != 151 || audit.Torn != 0 {
		t.Errorf("%+v, %v", audit, err)
	}
	f.open()
	if r := f.do("GET", "/box/kept", "").want(t, 200, ""); r.body != kept {
		t.Error("content differs")
	}
}

// The checker finds what is broken.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "content", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	svc := f.svc
	f.svc = nil
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	var found []string
	if _, err := offline.Check(f.dir+"/blobs.db", t.TempDir(),
		offline.CheckOptions{Report: func(err error) { found = append(found, err.Error()) }}); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !strings.Contains(found[0], "is missing") {
		t.Errorf("without its extents: %q", found)
	}
}
