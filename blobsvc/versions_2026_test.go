package blobsvc_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// What service versions of 2026 added. The Azure SDK for Go speaks 2026-06-06 here; what is of 2026-10-06 is tested
// with the SDK for Python, too (internal/test/sdktest).

func TestSmartTier(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	c := f.service().NewContainerClient("box")
	smart := to.Ptr(blob.AccessTierSmart)
	b := c.NewBlockBlobClient("smart")
	must(b.Upload(ctx, body("x"), &blockUpload{Tier: smart}))(t)
	if p := must(b.GetProperties(ctx, nil))(t); *p.AccessTier != "Smart" || *p.SmartAccessTier != "Hot" ||
		p.AccessTierInferred != nil {
		t.Errorf("tier %q, in %q", *p.AccessTier, *p.SmartAccessTier)
	}
	must(c.NewBlobClient("b").SetTier(ctx, blob.AccessTierSmart, nil))(t)
	for _, name := range []string{"b", "smart"} {
		page := must(c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &name}).NextPage(ctx))(t)
		if p := page.Segment.BlobItems[0].Properties; *p.AccessTier != "Smart" || *p.SmartAccessTier != "Hot" {
			t.Errorf("%s is listed with tier %q, in %q", name, *p.AccessTier, *p.SmartAccessTier)
		}
	}
	must(b.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	must(b.SetTier(ctx, blob.AccessTierSmart, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); *p.ArchiveStatus != "rehydrate-pending-to-smart" ||
		p.SmartAccessTier != nil {
		t.Errorf("archive status %q", *p.ArchiveStatus)
	}
	f.do("HEAD", "/box/b", "", "x-ms-version", "2026-04-06").want(t, 200, "").wantHeader(t, "x-ms-smart-access-tier", "")
	f.do("PUT", "/box/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512", "x-ms-access-tier",
		"Smart").want(t, 400, "InvalidBlobTier")
}

func TestTierInGetBlob(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for version, want := range map[string]string{"2026-06-06": "", "2026-10-06": "Hot"} {
		r := f.do("GET", "/box/b", "", "x-ms-version", version).want(t, 200, "")
		r.wantHeader(t, "x-ms-access-tier", want)
		if got := r.header.Get("x-ms-access-tier-inferred") == "true"; got != (want != "") {
			t.Errorf("version %s: inferred %v", version, got)
		}
	}
	f.do("PUT", "/box/b?comp=tier", "", "x-ms-access-tier", "Smart").want(t, 200, "")
	r := f.do("GET", "/box/b", "", "x-ms-version", "2026-10-06").want(t, 200, "")
	r.wantHeader(t, "x-ms-smart-access-tier", "Hot")
	if r.header.Get("x-ms-access-tier-change-time") == "" {
		t.Error("no time of the tier")
	}
}

func TestBothChecksumsOfWrites(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	source := f.base + "/box/pages"
	pages := strings.Repeat("x", 512)
	f.do("PUT", "/box/pages", pages, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/box/append", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	md5, crc := md5Of([]byte(pages)), crcOf([]byte(pages))
	for _, tc := range []struct {
		name, path, content string
		headers             []string
		md5Before, crcAfter string // of version 2026-06-06, and of 2026-10-06 in addition
	}{
		{"block", "new?comp=block&blockid=AA==", pages, []string{"Content-MD5", md5}, md5, crc},
		{"append", "append?comp=appendblock", pages, []string{"Content-MD5", md5}, md5, crc},
		{"pages", "page?comp=page", pages,
			[]string{"Content-MD5", md5, "x-ms-page-write", "update", "x-ms-range", "bytes=0-511"}, md5, crc},
		{"block from URL", "new?comp=block&blockid=AA==", "",
			[]string{"x-ms-copy-source", source, "x-ms-source-content-md5", md5}, md5, crc},
		{"blob from URL", "copy", "", []string{"x-ms-copy-source", source, "x-ms-source-content-md5", md5, "x-ms-blob-type",
			"BlockBlob"}, md5, crc},
		{"append from URL", "append?comp=appendblock", "", []string{"x-ms-copy-source", source}, md5, crc},
		{"pages from URL", "page?comp=page", "",
			[]string{"x-ms-copy-source", source, "x-ms-page-write", "update", "x-ms-range", "bytes=0-511", "x-ms-source-range",
				"bytes=0-511"}, md5, crc},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := f.do("PUT", "/box/"+tc.path, tc.content, append(tc.headers, "x-ms-version", "2026-06-06")...).want(t, 201, "")
			old.wantHeader(t, "Content-MD5", tc.md5Before)
			old.wantHeader(t, "x-ms-content-crc64", "")
			r := f.do("PUT", "/box/"+tc.path, tc.content, append(tc.headers, "x-ms-version", "2026-10-06")...).want(t, 201, "")
			r.wantHeader(t, "Content-MD5", tc.md5Before)
			r.wantHeader(t, "x-ms-content-crc64", tc.crcAfter)
		})
	}
}

// A SAS with the permission to create alone uploads a new blob in blocks, and overwrites none.
func TestPermissionToCreateInBlocks(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	c := f.service().NewContainerClient("box")
	with := func(name, permissions string) *blockblob.Client {
		p, err := sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
			Permissions:   permissions,
			ContainerName: "box", BlobName: name}.SignWithSharedKey(credential(t))
		if err != nil {
			t.Fatal(err)
		}
		return must(blockblob.NewClientWithNoCredential(c.NewBlobClient(name).URL()+"?"+p.Encode(),
			&blockblob.ClientOptions{ClientOptions: noRetries}))(t)
	}
	source := must(c.NewBlobClient("b").GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil))(t)
	fresh := with("new", "c")
	must(fresh.StageBlock(ctx, "AA==", body("x"), nil))(t)
	must(fresh.StageBlockFromURL(ctx, "AQ==", source, nil))(t)
	must(fresh.CommitBlockList(ctx, []string{"AA==", "AQ=="}, nil))(t)
	for name, call := range map[string]func() error{
		"Put Block":          func() error { _, err := fresh.StageBlock(ctx, "AA==", body("x"), nil); return err },
		"Put Block From URL": func() error { _, err := fresh.StageBlockFromURL(ctx, "AA==", source, nil); return err },
		"Put Block List":     func() error { _, err := fresh.CommitBlockList(ctx, nil, nil); return err },
		"Put Block, large": func() error {
			_, err := fresh.StageBlock(ctx, "AA==", body(strings.Repeat("x", 2<<20)), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), 403, "UnauthorizedBlobOverwrite") })
	}
	must(with("new", "w").StageBlock(ctx, "AA==", body("x"), nil))(t)
	_, err := with("other", "r").StageBlock(ctx, "AA==", body("x"), nil)
	wantCode(t, err, 403, "AuthorizationPermissionMismatch")
	u := must(url.Parse(with("older", "c").URL()))(t)
	f.anonymous("PUT", "/box/older?comp=block&blockid=AA==&"+u.RawQuery, "x-ms-version", "2026-04-06").want(t, 403,
		"AuthorizationPermissionMismatch")
}

// A SAS for a directory permits the directory's own name, and listing below it.
func TestDirectorySAS(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	c := f.service().NewContainerClient("box")
	for _, name := range []string{"foo/bar", "foo/bar/a", "foo/bar/b/c", "foo/barn", "foo/x"} {
		must(c.NewBlockBlobClient(name).Upload(ctx, body("x"), nil))(t)
	}
	query, err := sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
		Permissions:   "rl",
		ContainerName: "box", Directory: "foo/bar"}.SignWithSharedKey(credential(t))
	if err != nil {
		t.Fatal(err)
	}
	token := query.Encode()
	for name, status := range map[string]int{"foo/bar": 200, "foo/bar/a": 200, "foo/bar/b/c": 200, "foo/barn": 403,
		"foo/x": 403, "foo": 403, "b": 403} {
		if r := f.anonymous("GET", "/box/"+name+"?"+token); r.status != status {
			t.Errorf("GET %s: %d %s, want %d", name, r.status, r.code(), status)
		}
	}
	box := must(container.NewClientWithNoCredential(c.URL()+"?"+token,
		&container.ClientOptions{ClientOptions: noRetries}))(t)
	list := func(prefix string) (names []string, err error) {
		page, err := box.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix}).NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range page.Segment.BlobItems {
			names = append(names, *b.Name)
		}
		return names, nil
	}
	for prefix, want := range map[string]string{"foo/bar/": "foo/bar/a foo/bar/b/c", "foo/bar/b": "foo/bar/b/c"} {
		names, err := list(prefix)
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("list %s: %v %v, want %s", prefix, names, err, want)
		}
	}
	for _, prefix := range []string{"", "foo", "foo/", "foo/bar", "foo/barn/", "other/bar/"} {
		_, err := list(prefix)
		wantCode(t, err, 403, "AuthenticationFailed")
	}
	if _, err := box.GetProperties(ctx, nil); err == nil {
		t.Error("the token permits Get Container Properties")
	}
}

// endBefore ends a listing before a name, in all pages and with a delimiter.
func TestListBlobsEndBefore(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for _, name := range []string{"a", "d/1", "d/2", "d/3", "e"} {
		f.do("PUT", "/box/"+name, "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	}
	for query, want := range map[string]string{
		"&endBefore=d/2":                        "a b d/1",
		"&endBefore=d/2&maxresults=2":           "a b",
		"&endBefore=d/2&delimiter=/":            "a b d/",
		"&endBefore=d/&delimiter=/":             "a b",
		"&endBefore=d/3&startFrom=d/1&prefix=d": "d/1 d/2",
		"&endBefore=a":                          "",
		"&endBefore=":                           "a b d/1 d/2 d/3 e",
	} {
		list := f.do("GET", "/box?restype=container&comp=list"+query, "").want(t, 200, "").body
		var names []string
		for _, rest := range strings.Split(list, "<Name>")[1:] {
			name, _, _ := strings.Cut(rest, "<")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
		if more := !strings.Contains(list, "<NextMarker />"); more != strings.Contains(query, "maxresults") {
			t.Errorf("%s: another page %v\n%s", query, more, list)
		}
	}
}
