package blobsvc_test

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
)

func TestIncrementalCopyBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	src := c.NewPageBlobClient("src")
	must(src.Create(ctx, 2048, nil))(t)
	write := func(at int64, s string) string {
		t.Helper()
		must(src.UploadPages(ctx, body(strings.Repeat(s, 512)), blob.HTTPRange{Offset: at, Count: 512}, nil))(t)
		return *must(src.CreateSnapshot(ctx, nil))(t).Snapshot
	}
	one := write(0, "a")
	dst := c.NewPageBlobClient("dst")
	r := must(dst.StartCopyIncremental(ctx, src.URL(), one, nil))(t)
	if *r.CopyStatus != "pending" || *r.CopyID == "" {
		t.Errorf("%+v", r)
	}
	p := must(dst.GetProperties(ctx, nil))(t)
	if !*p.IsIncrementalCopy || p.DestinationSnapshot == nil || *p.ContentLength != 2048 || *p.CopyStatus != "success" {
		t.Errorf("%+v", p)
	}
	first := *p.DestinationSnapshot
	two := write(1024, "b")
	must(dst.StartCopyIncremental(ctx, src.URL(), two, nil))(t)
	second := *must(dst.GetProperties(ctx, nil))(t).DestinationSnapshot
	if second <= first {
		t.Errorf("snapshots %s and %s", first, second)
	}
	zeros := strings.Repeat("\x00", 512)
	a, b := strings.Repeat("a", 512), strings.Repeat("b", 512)
	for snap, want := range map[string]string{first: a + zeros + zeros + zeros, second: a + zeros + b + zeros} {
		if got := download(t, must(dst.WithSnapshot(snap))(t), nil); string(got) != want {
			t.Errorf("snapshot %s has other content", snap)
		}
	}
	// The snapshots of the copies say what changed between them.
	diff := must(must(dst.WithSnapshot(second))(t).NewGetPageRangesDiffPager(
		&pageblob.GetPageRangesDiffOptions{PrevSnapshot: &first}).NextPage(ctx))(t)
	if len(diff.PageRange) != 1 || *diff.PageRange[0].Start != 1024 {
		t.Errorf("%+v", diff.PageRange)
	}
	// Of the destination itself only the snapshots are read, and no other request writes it.
	_, err := dst.DownloadStream(ctx, nil)
	wantCode(t, err, 409, "OperationNotAllowedOnIncrementalCopyBlob")
	_, err = dst.UploadPages(ctx, body(a), blob.HTTPRange{Count: 512}, nil)
	wantCode(t, err, 409, "OperationNotAllowedOnIncrementalCopyBlob")
	_, err = dst.Create(ctx, 512, nil)
	wantCode(t, err, 409, "OperationNotAllowedOnIncrementalCopyBlob")
	_, err = c.NewBlobClient("x").StartCopyFromURL(ctx, dst.URL(), nil)
	wantCode(t, err, 409, "OperationNotAllowedOnIncrementalCopyBlob")
	_, err = dst.StartCopyIncremental(ctx, src.URL(), one, nil)
	wantCode(t, err, 409, "IncrementalCopyOfEarlierSnapshotNotAllowed")
	other := c.NewPageBlobClient("other")
	must(other.Create(ctx, 512, nil))(t)
	snap := *must(other.CreateSnapshot(ctx, nil))(t).Snapshot
	_, err = dst.StartCopyIncremental(ctx, other.URL(), snap, nil)
	wantCode(t, err, 409, "IncrementalCopyBlobMismatch")
	_, err = other.StartCopyIncremental(ctx, src.URL(), two, nil)
	wantCode(t, err, 409, "IncrementalCopyBlobMismatch")
	box := "/" + containerOf(c.URL())
	f.do("PUT", box+"/new?comp=incrementalcopy", "", "x-ms-copy-source", src.URL()).want(t, 409,
		"IncrementalCopySourceMustBeSnapshot")
	f.do("PUT", box+"/new?comp=incrementalcopy", "", "x-ms-copy-source",
		src.URL()+"?snapshot=2020-01-01T00:00:00.0000000Z").want(t, 404, "CannotVerifyCopySource")
	for _, gone := range []string{"/none?", "/none/b?"} {
		f.do("PUT", box+"/new?comp=incrementalcopy", "", "x-ms-copy-source",
			f.base+box+gone+"snapshot=2020-01-01T00:00:00.0000000Z").want(t, 404, "CannotVerifyCopySource")
	}
	f.do("PUT", box+"/new?comp=incrementalcopy", "", "x-ms-copy-source",
		"http://example.com/a/b?snapshot=2020-01-01T00:00:00.0000000Z").want(t, 403, "CannotVerifyCopySource")
	for _, none := range []string{"http://example.com", "http://example.com/a?snapshot=2020-01-01T00:00:00.0000000Z"} {
		f.do("PUT", box+"/new?comp=incrementalcopy", "", "x-ms-copy-source", none).want(t, 409, "InvalidSourceBlobUrl")
	}
	must(dst.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
}

// The difference to a snapshot is the same by its time and by its URL.
func TestGetPageRangesByURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewPageBlobClient("b")
	must(b.Create(ctx, 2048, nil))(t)
	snap := *must(b.CreateSnapshot(ctx, nil))(t).Snapshot
	must(b.UploadPages(ctx, body(strings.Repeat("x", 512)), blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	path := "/" + containerOf(c.URL()) + "/b?comp=pagelist"
	byTime := f.do("GET", path+"&prevsnapshot="+snap, "").want(t, 200, "")
	byURL := f.do("GET", path, "", "x-ms-previous-snapshot-url", b.URL()+"?snapshot="+snap).want(t, 200, "")
	if strings.Replace(byURL.body, "<NextMarker />", "", 1) != byTime.body ||
		!strings.Contains(byURL.body, "<Start>512</Start>") {
		t.Errorf("by URL %s, by time %s", byURL.body, byTime.body)
	}
	for _, url := range []string{"x", b.URL(), c.URL() + "/other?snapshot=" + snap,
		"http://example.com/c/b?snapshot=" + snap} {
		f.do("GET", path, "", "x-ms-previous-snapshot-url", url).want(t, 400, "InvalidHeaderValue")
	}
	f.do("GET", path+"&prevsnapshot="+snap, "", "x-ms-previous-snapshot-url", b.URL()+"?snapshot="+snap).want(t, 400,
		"InvalidHeaderValue")
	f.do("GET", path, "", "x-ms-previous-snapshot-url", b.URL()+"?snapshot=2020-01-01T00:00:00.0000000Z").want(t, 409,
		"PreviousSnapshotNotFound")
}
