package blobsvc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

func TestSetBlobExpiry(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Expiry: true})
	c := f.container()
	b := c.NewBlockBlobClient("b")
	must(b.Upload(ctx, body("x"), nil))(t)
	before := *must(b.GetProperties(ctx, nil))(t).ETag
	r := must(b.SetExpiry(ctx, blockblob.ExpiryTypeRelativeToNow(time.Hour), nil))(t)
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.ETag != before || *r.ETag != before || p.ExpiresOn == nil ||
		p.ExpiresOn.Sub(f.now()).Round(time.Second) != time.Hour {
		t.Errorf("expires %v", p.ExpiresOn)
	}
	pager := c.NewListBlobsFlatPager(nil)
	if item := must(pager.NextPage(ctx))(t).Segment.BlobItems[0]; item.Properties.ExpiresOn == nil ||
		!item.Properties.ExpiresOn.Equal(*p.ExpiresOn) {
		t.Errorf("list: %v", item.Properties.ExpiresOn)
	}
	at := f.now().Add(2 * time.Hour)
	must(b.SetExpiry(ctx, blockblob.ExpiryTypeAbsolute(at), nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.ExpiresOn.Unix() != at.Unix() {
		t.Errorf("expires %v, want %v", p.ExpiresOn, at)
	}
	must(b.SetExpiry(ctx, blockblob.ExpiryTypeRelativeToCreation(3*time.Hour), nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.ExpiresOn.Sub(*p.CreationTime).Round(time.Second) != 3*time.Hour {
		t.Errorf("expires %v after %v", p.ExpiresOn, p.CreationTime)
	}
	// Writing its metadata leaves the time as it is; writing the blob again does not.
	must(b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.ExpiresOn == nil {
		t.Error("metadata took the expiry time away")
	}
	must(b.SetExpiry(ctx, blockblob.ExpiryTypeNever{}, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.ExpiresOn != nil {
		t.Errorf("expires %v, want never", p.ExpiresOn)
	}
	path := "/" + containerOf(c.URL()) + "/b?comp=expiry"
	f.advance(time.Second)
	for _, tc := range []struct{ option, time, code string }{
		{"", "", "MissingRequiredHeader"},
		{"Sometimes", "1", "InvalidHeaderValue"},
		{"NeverExpire", "1000", "InvalidHeaderValue"},
		{"RelativeToNow", "", "InvalidHeaderValue"},
		{"RelativeToNow", "-5", "InvalidHeaderValue"},
		{"RelativeToNow", "9223372036854775807", "InvalidHeaderValue"},
		{"RelativeToNow", "461168601842738", "InvalidHeaderValue"},
		{"RelativeToCreation", "-1", "InvalidHeaderValue"},
		{"Absolute", "tomorrow", "InvalidHeaderValue"},
		{"Absolute", f.now().Add(-time.Hour).UTC().Format(http.TimeFormat), "InvalidHeaderValue"},
	} {
		t.Run(tc.option+tc.time, func(t *testing.T) {
			headers := []string{"x-ms-expiry-time", tc.time}
			if tc.option != "" {
				headers = append(headers, "x-ms-expiry-option", tc.option)
			}
			f.do("PUT", path, "", headers...).want(t, 400, tc.code)
		})
	}
	f.do("PUT", path, "", "x-ms-expiry-option", "RelativeToCreation", "x-ms-expiry-time", "1").want(t, 200, "")
	f.do("HEAD", "/"+containerOf(c.URL())+"/b", "").want(t, 404, "BlobNotFound")
	f.do("PUT", "/"+containerOf(c.URL())+"/none?comp=expiry", "", "x-ms-expiry-option", "NeverExpire").want(t, 404,
		"BlobNotFound")
}

// A blob is gone at its time, for readers, writers and listings, without any background work; its content follows.
func TestExpiredBlobs(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Expiry: true})
	c := f.container()
	b := c.NewBlockBlobClient("b")
	must(b.Upload(ctx, body("x"), &blockblob.UploadOptions{Tags: map[string]string{"k": "v"}}))(t)
	must(b.CreateSnapshot(ctx, nil))(t)
	must(b.SetExpiry(ctx, blockblob.ExpiryTypeRelativeToNow(time.Minute), nil))(t)
	// One written with its expiry time, one that is postponed.
	path := "/" + containerOf(c.URL())
	f.do("PUT", path+"/put", "x", "x-ms-blob-type", "BlockBlob", "x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time",
		"60000").want(t, 201, "")
	later := c.NewBlockBlobClient("later")
	must(later.Upload(ctx, body("x"), nil))(t)
	must(later.SetExpiry(ctx, blockblob.ExpiryTypeRelativeToNow(time.Minute), nil))(t)
	must(later.SetExpiry(ctx, blockblob.ExpiryTypeRelativeToNow(time.Hour), nil))(t)
	f.reopen()
	f.do("GET", path+"/b", "").want(t, 200, "")
	f.advance(61 * time.Second)
	f.do("GET", path+"/b", "").want(t, 404, "BlobNotFound")
	f.do("HEAD", path+"/put", "").want(t, 404, "BlobNotFound")
	f.do("PUT", path+"/put?comp=metadata", "").want(t, 404, "BlobNotFound")
	f.do("GET", path+"/later", "").want(t, 200, "")
	if diff := listNames(t, f.service().NewContainerClient(containerOf(c.URL())),
		container.ListBlobsInclude{Snapshots: true}); fmt.Sprint(diff) != "[later]" {
		t.Errorf("listed %v", diff)
	}
	f.advance(time.Hour)
	f.do("PUT", path+"/later", "y", "x-ms-blob-type", "BlockBlob", "If-None-Match", "*").want(t, 201, "")
	f.do("DELETE", path+"/later", "").want(t, 202, "")
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	if audit := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t); audit.Live != 0 {
		t.Errorf("left over: %+v", audit)
	}
}

// A protected snapshot outlives its blob, before the background has come to that and afterwards.
func TestExpiryOfProtectedSnapshots(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Expiry: true, Versioning: true, Immutability: true})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, cleaned := range []bool{false, true} {
		path := fmt.Sprintf("/box/%t", cleaned)
		f.do("PUT", path, "x", "x-ms-blob-type", "BlockBlob", "x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time",
			"60000").want(t, 201, "")
		snapshot := func() string {
			return path + "?snapshot=" + f.do("PUT", path+"?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
		}
		held, free := snapshot(), snapshot()
		f.do("PUT", held+"&comp=legalhold", "", "x-ms-legal-hold", "true").want(t, 200, "")
		f.advance(2 * time.Minute)
		if cleaned {
			if err := f.parts.Clean(ctx); err != nil {
				t.Fatal(err)
			}
		}
		f.do("HEAD", path, "").want(t, 404, "BlobNotFound")
		f.do("GET", free, "").want(t, 404, "BlobNotFound")
		f.do("GET", held, "").want(t, 200, "")
		listed := listNames(t, f.service().NewContainerClient("box"), container.ListBlobsInclude{Snapshots: true})
		if fmt.Sprint(listed) != fmt.Sprintf("[%t]", cleaned) {
			t.Errorf("listed %v", listed)
		}
		f.do("DELETE", held, "").want(t, 409, "BlobImmutableDueToLegalHold")
		// Another blob takes the name, and the snapshot is one of it.
		f.do("PUT", path, "y", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		f.do("DELETE", path, "").want(t, 409, "SnapshotsPresent")
		f.do("PUT", held+"&comp=legalhold", "", "x-ms-legal-hold", "false").want(t, 200, "")
		f.do("DELETE", held, "").want(t, 202, "")
		f.do("DELETE", path, "").want(t, 202, "")
		f.do("GET", held, "").want(t, 404, "BlobNotFound")
	}
}

func listNames(t *testing.T, c *container.Client, include container.ListBlobsInclude) (names []string) {
	t.Helper()
	for pager := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: include}); pager.More(); {
		for _, item := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
			names = append(names, *item.Name)
		}
	}
	return names
}

// Reading renews the access time when it is a day old, not before, and writes nothing by itself.
func TestLastAccessTime(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Expiry: true, AccessTimes: true})
	c := f.container()
	b := c.NewBlockBlobClient("b")
	must(b.Upload(ctx, body("x"), nil))(t)
	path := "/" + containerOf(c.URL()) + "/b"
	accessed := func() time.Time {
		t.Helper()
		if err := f.parts.Clean(ctx); err != nil {
			t.Fatal(err)
		}
		r := f.do("HEAD", path, "").want(t, 200, "")
		at, err := http.ParseTime(r.header.Get("x-ms-last-access-time"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := accessed()
	f.advance(23 * time.Hour)
	f.do("GET", path, "").want(t, 200, "")
	if at := accessed(); !at.Equal(first) {
		t.Errorf("after 23 hours: %v, want %v", at, first)
	}
	etag := f.do("HEAD", path, "").header.Get("ETag")
	f.advance(2 * time.Hour)
	f.do("HEAD", path, "").want(t, 200, "")
	if at := accessed(); !at.Equal(first) {
		t.Errorf("Get Blob Properties counts as access: %v", at)
	}
	f.do("GET", path, "").want(t, 200, "")
	if at := accessed(); at.Sub(first).Round(time.Hour) != 25*time.Hour {
		t.Errorf("after 25 hours: %v, first %v", at, first)
	}
	if now := f.do("HEAD", path, "").header.Get("ETag"); now != etag {
		t.Error("reading changed the entity tag")
	}
	f.reopen()
	want := "<LastAccessTime>" + f.do("HEAD", path, "").header.Get("x-ms-last-access-time") + "</LastAccessTime>"
	if r := f.do("GET", "/"+containerOf(c.URL())+"?restype=container&comp=list", ""); !strings.Contains(r.body, want) {
		t.Errorf("no %s in the list\n%s", want, r.body)
	}
	// Where it is not tracked nothing is shown.
	f = start(t)
	c = f.container()
	must(c.NewBlockBlobClient("b").Upload(ctx, body("x"), nil))(t)
	if r := must(c.NewBlobClient("b").DownloadStream(ctx, &blob.DownloadStreamOptions{}))(t); r.LastAccessed != nil {
		t.Errorf("last access %v", r.LastAccessed)
	}
}

// An account without blob-expiry is one without a hierarchical namespace: nothing is written.
func TestExpiryNeedsTheSetting(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	never := []string{"x-ms-expiry-option", "NeverExpire", "x-ms-blob-type", "BlockBlob"}
	f.do("PUT", "/box/b?comp=expiry", "", never...).want(t, 400, "HierarchicalNamespaceNotEnabled")
	f.do("PUT", "/box/new", "x", never...).want(t, 400, "HierarchicalNamespaceNotEnabled")
	f.do("HEAD", "/box/new", "").want(t, 404, "BlobNotFound")
}
