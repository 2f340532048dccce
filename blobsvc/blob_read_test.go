package blobsvc_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

func TestGetBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	content := string(randomBytes(5 << 20))
	f.do("PUT", "/box/b", content, "x-ms-blob-type", "BlockBlob", "x-ms-blob-content-type", "a/b",
		"x-ms-blob-content-disposition", "").want(t, 201, "")
	r := f.do("GET", "/box/b", "").want(t, 200, "")
	if r.body != content || r.header.Get("Content-MD5") != md5Of([]byte(content)) ||
		r.header.Get("Content-Length") != strconv.Itoa(len(content)) {
		t.Errorf("whole: %d bytes, %v", len(r.body), r.header)
	}
	for name, want := range map[string]string{"Accept-Ranges": "bytes", "x-ms-blob-type": "BlockBlob",
		"x-ms-lease-state":  "available",
		"x-ms-lease-status": "unlocked", "x-ms-server-encrypted": "true", "Content-Type": "a/b", "x-ms-access-tier": ""} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, ok := r.header["Content-Disposition"]; !ok {
		t.Error("an empty disposition that was set is not sent")
	}
	for _, tc := range []struct {
		name    string
		headers []string
		status  int
		code    string
		off, n  int
		rng     string
	}{
		{"Range", []string{"Range", "bytes=10-19"}, 206, "", 10, 10, "bytes 10-19/5242880"},
		{"x-ms-range", []string{"x-ms-range", "bytes=0-0"}, 206, "", 0, 1, "bytes 0-0/5242880"},
		{"x-ms-range wins", []string{"x-ms-range", "bytes=5-6", "Range", "bytes=0-0"}, 206, "", 5, 2, "bytes 5-6/5242880"},
		{"open end", []string{"Range", "bytes=5242870-"}, 206, "", 5242870, 10, "bytes 5242870-5242879/5242880"},
		{"past the end", []string{"Range", "bytes=5242870-99999999"}, 206, "", 5242870, 10, "bytes 5242870-5242879/5242880"},
		{"large", []string{"Range", "bytes=1000000-4999999"}, 206, "", 1000000, 4000000, "bytes 1000000-4999999/5242880"},
		{"after the end", []string{"Range", "bytes=5242880-"}, 416, "InvalidRange", 0, 0, "bytes */5242880"},
		{"MD5 without a range", []string{"x-ms-range-get-content-md5", "true"}, 400, "InvalidHeaderValue", 0, 0, ""},
		{"MD5 of too much", []string{"x-ms-range", "bytes=0-4194304", "x-ms-range-get-content-md5", "true"}, 400,
			"InvalidHeaderValue", 0, 0, ""},
		{"two hashes", []string{"x-ms-range", "bytes=0-1", "x-ms-range-get-content-md5", "true",
			"x-ms-range-get-content-crc64", "true"}, 400, "BothCrc64AndMd5RangeHeaderPresent", 0, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := f.do("GET", "/box/b", "", tc.headers...).want(t, tc.status, tc.code)
			if r.header.Get("Content-Range") != tc.rng {
				t.Errorf("Content-Range %q, want %q", r.header.Get("Content-Range"), tc.rng)
			}
			if tc.code == "" && (r.body != content[tc.off:tc.off+tc.n] ||
				r.header.Get("x-ms-blob-content-md5") != md5Of([]byte(content)) || r.header.Get("Content-MD5") != "") {
				t.Errorf("%d bytes, %v", len(r.body), r.header)
			}
		})
	}
	for _, text := range []string{"bytes=5-1", "bytes=-5", "bytes=-1-", "bytes=0--1", "bytes=-2-497", "abc"} { // ignored
		for _, header := range []string{"Range", "x-ms-range"} {
			if r := f.do("GET", "/box/b", "", header, text); r.status != 200 || len(r.body) != len(content) ||
				r.header.Get("Content-Range") != "" {
				t.Errorf("%s: %s: %d, %d bytes", header, text, r.status, len(r.body))
			}
		}
	}
	part := content[7 : 1<<20]
	rng := "bytes=7-" + strconv.Itoa(1<<20-1)
	if r := f.do("GET", "/box/b", "", "x-ms-range", rng, "x-ms-range-get-content-md5", "true").want(t, 206,
		""); r.body != part || r.header.Get("Content-MD5") != md5Of([]byte(part)) {
		t.Errorf("range MD5 %q", r.header.Get("Content-MD5"))
	}
	if r := f.do("GET", "/box/b", "", "x-ms-range", rng, "x-ms-range-get-content-crc64", "true").want(t, 206,
		""); r.body != part || r.header.Get("x-ms-content-crc64") != crcOf([]byte(part)) {
		t.Errorf("range CRC64 %q, want %s", r.header.Get("x-ms-content-crc64"), crcOf([]byte(part)))
	}
	f.do("GET", "/box/none", "").want(t, 404, "BlobNotFound")
	f.do("GET", "/none/b", "").want(t, 404, "ContainerNotFound")
	f.do("GET", "/box/b?snapshot=yesterday", "").want(t, 400, "")
	f.do("GET", "/box/b?snapshot=2020-01-01T00:00:00.0000000Z", "").want(t, 404, "BlobNotFound")
	f.do("GET", "/box/b?versionid=2020-01-01T00:00:00.0000000Z", "").want(t, 404, "BlobNotFound")
	f.do("PUT", "/box/empty", "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("GET", "/box/empty", "").want(t, 200, "")
	f.do("GET", "/box/empty", "", "Range", "bytes=0-").want(t, 416, "InvalidRange")
}

func TestGetBlobProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	_, err := b.GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Upload(ctx, body("hello"), nil))(t)
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.ContentLength != 5 || *p.AccessTier != "Hot" || !*p.AccessTierInferred || p.CreationTime == nil ||
		*p.LeaseState != "available" {
		t.Errorf("%+v", p)
	}
}

// Conditional headers of reads: 304 where a write would be refused with 412.
func TestReadConditions(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	up := must(b.Upload(ctx, body("x"), &blockUpload{Tags: map[string]string{"k": "v"}}))(t)
	past, future := up.LastModified.Add(-time.Hour), up.LastModified.Add(time.Hour)
	other, any := azcore.ETag(`"0x8D0000000000000"`), azcore.ETagAny
	for _, tc := range []struct {
		name   string
		cond   blob.ModifiedAccessConditions
		status int
		code   string
	}{
		{"If-Match holds", blob.ModifiedAccessConditions{IfMatch: up.ETag}, 0, ""},
		{"If-Match any", blob.ModifiedAccessConditions{IfMatch: &any}, 0, ""},
		{"If-Match fails", blob.ModifiedAccessConditions{IfMatch: &other}, 412, "ConditionNotMet"},
		{"If-None-Match holds", blob.ModifiedAccessConditions{IfNoneMatch: &other}, 0, ""},
		{"If-None-Match fails", blob.ModifiedAccessConditions{IfNoneMatch: up.ETag}, 304, "ConditionNotMet"},
		{"If-None-Match any", blob.ModifiedAccessConditions{IfNoneMatch: &any}, 400, "UnsatisfiableCondition"},
		{"If-Modified-Since holds", blob.ModifiedAccessConditions{IfModifiedSince: &past}, 0, ""},
		{"If-Modified-Since the same second", blob.ModifiedAccessConditions{IfModifiedSince: up.LastModified}, 304,
			"ConditionNotMet"},
		{"If-Modified-Since fails", blob.ModifiedAccessConditions{IfModifiedSince: &future}, 304, "ConditionNotMet"},
		{"If-Unmodified-Since holds", blob.ModifiedAccessConditions{IfUnmodifiedSince: up.LastModified}, 0, ""},
		{"If-Unmodified-Since fails", blob.ModifiedAccessConditions{IfUnmodifiedSince: &past}, 412, "ConditionNotMet"},
		{"x-ms-if-tags holds", blob.ModifiedAccessConditions{IfTags: to.Ptr(`k='v'`)}, 0, ""},
		{"x-ms-if-tags fails", blob.ModifiedAccessConditions{IfTags: to.Ptr(`k<>'v'`)}, 412, "ConditionNotMet"},
		{"x-ms-if-tags malformed", blob.ModifiedAccessConditions{IfTags: to.Ptr(`k`)}, 400, "InvalidHeaderValue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cond := &blob.AccessConditions{ModifiedAccessConditions: &tc.cond}
			got, get := b.DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: cond})
			_, props := b.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: cond})
			if tc.status == 304 { // which the SDK takes for success
				if get != nil || got.ErrorCode == nil || *got.ErrorCode != tc.code {
					t.Errorf("got %v, %v; want 304 %s", got.ErrorCode, get, tc.code)
				}
				return
			}
			for _, err := range []error{get, props} {
				if tc.code != "" {
					wantCode(t, err, tc.status, tc.code)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestGetBlobMetadata(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob", "x-ms-meta-One", "1").want(t, 201, "")
	for _, method := range []string{"GET", "HEAD"} {
		if r := f.do(method, "/box/b?comp=metadata", "").want(t, 200, ""); r.header.Get("x-ms-meta-one") != "1" ||
			r.header.Get("ETag") == "" || r.body != "" {
			t.Errorf("%s: %v %q", method, r.header, r.body)
		}
	}
	f.do("GET", "/box/none?comp=metadata", "").want(t, 404, "BlobNotFound")
	f.do("GET", "/box/b?comp=metadata", "", "If-Match", `"0x1"`).want(t, 412, "ConditionNotMet")
}

func TestPublicAccess(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, tc := range []struct {
		level      container.PublicAccessType
		blob, list int
	}{{"", 401, 401}, {container.PublicAccessTypeBlob, 200, 401}, {container.PublicAccessTypeContainer, 200, 200}} {
		t.Run("level "+string(tc.level), func(t *testing.T) {
			name := f.containerName()
			f.do("PUT", "/"+name+"?restype=container", "", "x-ms-blob-public-access", string(tc.level)).want(t, 201, "")
			f.do("PUT", "/"+name+"/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
			if r := f.anonymous("GET", "/"+name+"/b"); r.status != tc.blob {
				t.Errorf("blob: %d, want %d", r.status, tc.blob)
			}
			if r := f.anonymous("GET", "/"+name+"?restype=container&comp=list"); r.status != tc.list {
				t.Errorf("list: %d, want %d", r.status, tc.list)
			}
			for _, write := range []string{"PUT", "DELETE"} {
				if r := f.anonymous(write, "/"+name+"/b", "x-ms-blob-type", "BlockBlob"); r.status != 401 {
					t.Errorf("%s: %d, want 401", write, r.status)
				}
			}
		})
	}
	if r := f.anonymous("GET", "/nowhere/b"); r.status != 401 {
		t.Errorf("a container that does not exist: %d, want 401", r.status)
	}
}

// What was uploaded in one way is read in another: through the high-level functions of the SDK.
func TestUploadAndDownloadInParallel(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	content := randomBytes(9<<20 + 13)
	if _, err := b.UploadStream(ctx, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(content))
	if _, err := b.DownloadBuffer(ctx, got, &blob.DownloadBufferOptions{BlockSize: 1 << 20, Concurrency: 4}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Error("content differs")
	}
	must(b.Upload(ctx, streaming.NopCloser(strings.NewReader("short")), nil))(t)
	if got := download(t, b, nil); string(got) != "short" {
		t.Errorf("content %q", got)
	}
}

// Clients that go away in the middle of an answer do not disturb others, and leave nothing held.
func TestAbortedDownload(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	content := string(randomBytes(16 << 20))
	f.do("PUT", "/box/b", content, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for range 5 {
		resp, err := http.DefaultTransport.RoundTrip(f.request("GET", "/box/b", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); r.body != content {
		t.Error("content differs")
	}
}
