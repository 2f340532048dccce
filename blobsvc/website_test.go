package blobsvc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// A website's requests count against the limit of requests that are served at once.
func TestStaticWebsiteIsLimited(t *testing.T) {
	t.Parallel()
	var common frontend.Common
	f := startWith(t, func(c *blobhost.Config) {
		c.Limit = frontend.NewLimit(1)
		common = c.Common
	})
	leave, ok := common.Enter("devstoreaccount1")
	if !ok {
		t.Fatal("the limit is reached")
	}
	f.browse("GET", "/").want(t, 503, "ServerBusy")
	leave()
	f.browse("GET", "/").want(t, 404, "WebContentNotFound")
	f.browse("GET", "/").want(t, 404, "WebContentNotFound")
}

// browse sends a request to the website of the development account.
func (f *fixture) browse(method, path string, headers ...string) reply {
	f.t.Helper()
	hr, err := http.NewRequest(method, strings.TrimSuffix(f.base, "/devstoreaccount1")+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	hr.Host = "devstoreaccount1.web.localhost:10000"
	for i := 0; i+1 < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	if h := hr.Header.Get("Host"); h != "" {
		hr.Host = h
	}
	return f.send(hr)
}

func TestStaticWebsite(t *testing.T) {
	t.Parallel()
	f := start(t)
	svc := f.service()
	f.browse("GET", "/").want(t, 404, "WebContentNotFound")
	set := func(w service.StaticWebsite) {
		t.Helper()
		must(svc.SetProperties(ctx, &service.SetPropertiesOptions{StaticWebsite: &w}))(t)
	}
	set(service.StaticWebsite{Enabled: to.Ptr(true), IndexDocument: to.Ptr("index.html"),
		ErrorDocument404Path: to.Ptr("errors/404.html")})
	p := must(svc.GetProperties(ctx, nil))(t)
	if s := p.StaticWebsite; !*s.Enabled || *s.IndexDocument != "index.html" ||
		*s.ErrorDocument404Path != "errors/404.html" {
		t.Errorf("%+v", s)
	}
	// The container came with the setting.
	web := svc.NewContainerClient("$web")
	put := func(name, content, kind string) {
		t.Helper()
		must(web.NewBlockBlobClient(name).Upload(ctx, body(content), &blockblob.UploadOptions{HTTPHeaders: &blob.HTTPHeaders{
			BlobContentType: &kind, BlobCacheControl: to.Ptr("max-age=60")}}))(t)
	}
	f.browse("GET", "/").want(t, 404, "WebContentNotFound") // not even the error document
	put("index.html", "<h1>home</h1>", "text/html")
	put("docs/index.html", "<h1>docs</h1>", "text/html")
	put("a b/ü.txt", "0123456789", "text/plain")
	put("errors/404.html", "<h1>gone</h1>", "text/html")
	put("empty", "", "text/plain")
	for _, tc := range []struct {
		path    string
		headers []string
		status  int
		body    string
	}{
		{"/", nil, 200, "<h1>home</h1>"},
		{"/index.html", nil, 200, "<h1>home</h1>"},
		{"/?comp=list&restype=container", nil, 200, "<h1>home</h1>"},
		{"/docs/", nil, 200, "<h1>docs</h1>"},
		{"/docs", nil, 200, "<h1>docs</h1>"},
		{"/a%20b/%C3%BC.txt", nil, 200, "0123456789"},
		{"/a%20b/%C3%BC.txt", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"/a%20b/%C3%BC.txt", []string{"Range", "bytes=-3"}, 206, "789"},
		{"/a%20b/%C3%BC.txt", []string{"Range", "bytes=20-"}, 416, "invalid range: failed to overlap\n"},
		{"/a%20b/%C3%BC.txt", []string{"If-Match", `"0x1"`}, 412, ""},
		{"/empty", nil, 200, ""},
		{"/none", nil, 404, "<h1>gone</h1>"},
		{"/none/", []string{"Range", "bytes=0-1"}, 404, "<h1>gone</h1>"},
		{"/INDEX.html", nil, 404, "<h1>gone</h1>"},
		{"/..%2findex.html", nil, 404, "<h1>gone</h1>"},
		{"/" + strings.Repeat("x", 2000), nil, 404, "<h1>gone</h1>"},
	} {
		if r := f.browse("GET", tc.path, tc.headers...); r.status != tc.status || r.body != tc.body {
			t.Errorf("GET %s %q: %d %q", tc.path, tc.headers, r.status, r.body)
		}
	}
	r := f.browse("GET", "/")
	if r.header.Get("Content-Type") != "text/html" || r.header.Get("Cache-Control") != "max-age=60" ||
		r.header.Get("Content-Length") != "13" || r.header.Get("x-ms-request-id") == "" {
		t.Errorf("headers %v", r.header)
	}
	if again := f.browse("GET", "/", "If-None-Match", r.header.Get("ETag")); again.status != 304 {
		t.Errorf("unchanged: %d", again.status)
	}
	if again := f.browse("GET", "/", "If-Modified-Since", r.header.Get("Last-Modified")); again.status != 304 {
		t.Errorf("unmodified: %d", again.status)
	}
	if h := f.browse("HEAD", "/none"); h.status != 404 || h.body != "" || h.header.Get("Content-Length") != "13" {
		t.Errorf("HEAD: %+v", h)
	}
	f.browse("PUT", "/index.html").want(t, 405, "UnsupportedHttpVerb")
	f.browse("DELETE", "/index.html").want(t, 405, "UnsupportedHttpVerb")
	// Azure's own host name; no other account, and no other host.
	if r := f.browse("GET", "/", "Host", "devstoreaccount1.z6.web.core.windows.net"); r.status != 200 {
		t.Errorf("Azure's name: %d", r.status)
	}
	if r := f.browse("GET", "/", "Host", "other.web.localhost"); r.status == 200 {
		t.Error("another account's website is served")
	}
	// One page for every directory, as single-page applications want it.
	set(service.StaticWebsite{Enabled: to.Ptr(true), DefaultIndexDocumentPath: to.Ptr("docs/index.html")})
	if r := f.browse("GET", "/x/y/"); r.body != "<h1>docs</h1>" {
		t.Errorf("default index: %d %q", r.status, r.body)
	}
	f.browse("GET", "/x/y").want(t, 404, "WebContentNotFound")
	set(service.StaticWebsite{Enabled: to.Ptr(false)})
	f.browse("GET", "/index.html").want(t, 404, "WebContentNotFound")
}
