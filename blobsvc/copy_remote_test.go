package blobsvc_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// source is a host outside the service, with one file at every path but those that the paths of its refusals name.
type source struct {
	*httptest.Server
	mu      sync.Mutex
	content []byte
	etag    string
	ranges  []string // of the requests that came
	// cut, if more than 0, breaks each answer off after so many bytes; hold, if set, is waited for after them.
	cut  int
	hold chan struct{}
}

func newSource(t *testing.T, content []byte) *source {
	t.Helper()
	s := &source{content: content, etag: `"v1"`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	content, etag, cut, hold := s.content, s.etag, s.cut, s.hold
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	s.mu.Unlock()
	switch r.URL.Path {
	case "/none":
		w.Header().Set("x-ms-error-code", "BlobNotFound")
		w.WriteHeader(http.StatusNotFound)
		return
	case "/secret":
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
	case "/moved":
		http.Redirect(w, r, "/file", http.StatusFound)
		return
	case "/endless":
		w.(http.Flusher).Flush() // so no Content-Length
		return
	case "/page":
		w.Header().Set("x-ms-blob-type", "PageBlob")
	case "/plain": // knows no ranges
		r.Header.Del("Range")
	}
	h := w.Header()
	h.Set("Content-Type", "text/x")
	h.Set("Cache-Control", "private")
	h.Set("x-ms-meta-color", "blue")
	h.Set("ETag", etag)
	if cut > 0 {
		w = &cutter{ResponseWriter: w, left: cut, hold: hold, gone: r.Context().Done()}
	}
	http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
}

// cutter breaks an answer off.
type cutter struct {
	http.ResponseWriter
	left int
	hold chan struct{}
	gone <-chan struct{} // closed when no client reads the answer any more
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		if c.hold != nil {
			select {
			case <-c.hold:
			case <-c.gone:
			}
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// allow lets a service fetch from this source.
func (s *source) allow(c *blobhost.Config) {
	c.Egress = egress.Policy{Hosts: []string{strings.TrimPrefix(s.URL, "http://")}, Private: true}
	c.CopyPause = time.Millisecond
}

// pattern is content in which every place differs from every other.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestFromURLElsewhere(t *testing.T) {
	t.Parallel()
	content := pattern(300_000)
	web := newSource(t, content)
	f := startWith(t, web.allow)
	c := f.container()
	sum := md5.Sum(content[512:1536])
	for _, path := range []string{"/file", "/plain"} {
		rng := blob.HTTPRange{Offset: 512, Count: 1024}
		b := c.NewBlockBlobClient("b")
		must(b.UploadBlobFromURL(ctx, web.URL+path, nil))(t)
		if p := must(b.GetProperties(ctx, nil))(t); *p.ContentType != "text/x" || *p.CacheControl != "private" ||
			p.CopyID != nil {
			t.Errorf("%s: %+v", path, p)
		}
		if !bytes.Equal(download(t, b, nil), content) {
			t.Errorf("%s: Put Blob From URL: content differs", path)
		}
		must(b.StageBlockFromURL(ctx, blockName(1), web.URL+path, &blockblob.StageBlockFromURLOptions{Range: rng,
			SourceContentValidation: blob.SourceContentValidationTypeMD5(sum[:])}))(t)
		must(b.CommitBlockList(ctx, []string{blockName(1)}, nil))(t)
		if !bytes.Equal(download(t, b, nil), content[512:1536]) {
			t.Errorf("%s: Put Block From URL: content differs", path)
		}
		a := c.NewAppendBlobClient("a" + path[1:])
		must(a.Create(ctx, nil))(t)
		must(a.AppendBlockFromURL(ctx, web.URL+path, &appendblob.AppendBlockFromURLOptions{Range: rng}))(t)
		if !bytes.Equal(download(t, a, nil), content[512:1536]) {
			t.Errorf("%s: Append Block From URL: content differs", path)
		}
		p := c.NewPageBlobClient("p" + path[1:])
		must(p.Create(ctx, 4096, nil))(t)
		must(p.UploadPagesFromURL(ctx, web.URL+path, 512, 2048, 1024, nil))(t)
		if got := download(t, p, nil); !bytes.Equal(got[2048:3072], content[512:1536]) {
			t.Errorf("%s: Put Page From URL: content differs", path)
		}
		d := c.NewBlobClient("d" + path[1:])
		r := must(d.CopyFromURL(ctx, web.URL+path, nil))(t)
		props := must(d.GetProperties(ctx, nil))(t)
		if *r.CopyStatus != "success" || *props.CopySource != web.URL+path || *props.Metadata["Color"] != "blue" ||
			*props.ContentType != "text/x" {
			t.Errorf("%s: Copy From URL: %+v", path, props)
		}
		if !bytes.Equal(download(t, d, nil), content) {
			t.Errorf("%s: Copy From URL: content differs", path)
		}
	}
	must(c.NewBlockBlobClient("s").UploadBlobFromURL(ctx, web.URL+"/secret", &blockblob.UploadBlobFromURLOptions{
		CopySourceAuthorization: to.Ptr("Bearer right")}))(t)
}

func TestFromURLElsewhereRefusals(t *testing.T) {
	t.Parallel()
	web := newSource(t, pattern(3000))
	other := newSource(t, nil)
	f := startWith(t, web.allow)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	wrong := base64.StdEncoding.EncodeToString(make([]byte, 16))
	with := func(path string, more ...string) []string {
		return append([]string{"x-ms-copy-source", web.URL + path, "x-ms-blob-type", "BlockBlob"}, more...)
	}
	for _, tc := range []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"another host", []string{"x-ms-copy-source", other.URL + "/file", "x-ms-blob-type", "BlockBlob"}, 403,
			"CannotVerifyCopySource"},
		{"the same host by a name", []string{"x-ms-copy-source", strings.Replace(other.URL, "127.0.0.1", "localhost", 1),
			"x-ms-blob-type", "BlockBlob"}, 403, "CannotVerifyCopySource"},
		{"user in the URL", []string{"x-ms-copy-source", strings.Replace(web.URL, "//", "//u:p@", 1), "x-ms-blob-type",
			"BlockBlob"}, 403, "CannotVerifyCopySource"},
		{"not found", with("/none"), 404, "CannotVerifyCopySource"},
		{"forbidden", with("/secret"), 403, "CannotVerifyCopySource"},
		{"redirect", with("/moved"), 400, "CannotVerifyCopySource"},
		{"no length", with("/endless"), 400, "CannotVerifyCopySource"},
		{"condition", with("/file", "x-ms-source-if-match", `"v2"`), 412, "SourceConditionNotMet"},
		{"unchanged", with("/file", "x-ms-source-if-none-match", `"v1"`), 412, "SourceConditionNotMet"},
		{"condition on tags", with("/file", "x-ms-source-if-tags", `"a"='b'`), 501, "NotImplemented"},
		{"hash", with("/file", "x-ms-source-content-md5", wrong), 400, "Md5Mismatch"},
		{"hash's form", with("/file", "x-ms-source-content-md5", "x"), 400, "InvalidMd5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", "/box/dst", "old", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
			f.do("PUT", "/box/dst", "", tc.headers...).want(t, tc.status, tc.code)
			if r := f.do("GET", "/box/dst", ""); r.body != "old" {
				t.Errorf("the refused copy left %q", r.body)
			}
		})
	}
	r := f.do("PUT", "/box/dst", "", with("/none")...)
	if r.header.Get("x-ms-copy-source-status-code") != "404" ||
		r.header.Get("x-ms-copy-source-error-code") != "BlobNotFound" {
		t.Errorf("headers %v", r.header)
	}
	web.set(func() { web.cut = 1000 })
	f.do("PUT", "/box/dst", "", with("/file")...).want(t, 500, "CannotVerifyCopySource")
	f.do("PUT", "/box/dst", "", "x-ms-copy-source", web.URL+"/none").want(t, 404, "CannotVerifyCopySource")
	f.do("PUT", "/box/dst", "", "x-ms-copy-source", web.URL+"/file", "x-ms-source-if-match", `"v2"`).want(t, 412,
		"SourceConditionNotMet")
	f.do("PUT", "/box/dst", "", "x-ms-copy-source", other.URL).want(t, 403, "CannotVerifyCopySource")
	f.do("PUT", "/box/dst", "", "x-ms-copy-source", web.URL+"/file", "x-ms-copy-source-authorization",
		"Bearer right").want(t, 400, "UnsupportedHeader")
	if r := f.do("GET", "/box/dst", ""); r.body != "old" {
		t.Errorf("content %q", r.body)
	}
	// Without the option nothing is fetched.
	f = start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/dst", "", with("/file")...).want(t, 403, "CannotVerifyCopySource")
}

// copied polls until a copy is over.
func copied(t *testing.T, b *blob.Client) (p blob.GetPropertiesResponse) {
	t.Helper()
	waitFor(t, func() bool {
		p = must(b.GetProperties(ctx, nil))(t)
		if p.CopyStatus == nil {
			t.Fatalf("not a copy: %+v", p)
		}
		return *p.CopyStatus != blob.CopyStatusTypePending
	})
	return p
}

func TestPendingCopy(t *testing.T) {
	t.Parallel()
	const size = 40 << 20 // three chunks
	content := pattern(size)
	web := newSource(t, content)
	web.cut, web.hold = 20<<20, make(chan struct{})
	f := startWith(t, web.allow)
	c := f.container()
	b := c.NewBlobClient("b")
	r := must(b.StartCopyFromURL(ctx, web.URL+"/file", &blob.StartCopyFromURLOptions{Tier: to.Ptr(blob.AccessTierCool)}))(
		t)
	if *r.CopyStatus != blob.CopyStatusTypePending {
		t.Fatalf("status %s", *r.CopyStatus)
	}
	waitFor(t, func() bool {
		p := must(b.GetProperties(ctx, nil))(t)
		return *p.CopyProgress == "16777216/41943040"
	})
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.CopyStatus != "pending" || *p.ContentLength != 0 || *p.CopySource != web.URL+"/file" ||
		p.CopyCompletionTime != nil || *p.ContentType != "text/x" {
		t.Errorf("%+v", p)
	}
	// No request changes the destination meanwhile, or copies from it.
	for name, err := range map[string]error{
		"put":      second(c.NewBlockBlobClient("b").Upload(ctx, body("x"), nil)),
		"commit":   second(c.NewBlockBlobClient("b").CommitBlockList(ctx, nil, nil)),
		"metadata": second(b.SetMetadata(ctx, nil, nil)),
		"snapshot": second(b.CreateSnapshot(ctx, nil)),
		"delete":   second(b.Delete(ctx, nil)),
		"copy to":  second(b.StartCopyFromURL(ctx, web.URL+"/file", nil)),
		"copy":     second(c.NewBlobClient("x").StartCopyFromURL(ctx, b.URL(), nil)),
	} {
		t.Log(name)
		wantCode(t, err, 409, "PendingCopyOperation")
	}
	// The process stops and starts again: the copy goes on where it was.
	web.set(func() { web.cut, web.ranges = 0, nil })
	f.reopen()
	close(web.hold)
	b = f.service().NewContainerClient(containerOf(c.URL())).NewBlobClient("b")
	p = copied(t, b)
	if *p.CopyStatus != "success" || *p.CopyProgress != "41943040/41943040" || *p.ContentLength != size ||
		p.CopyCompletionTime == nil || *p.AccessTier != "Cool" {
		t.Errorf("%+v", p)
	}
	web.mu.Lock()
	if len(web.ranges) != 1 || web.ranges[0] != "bytes=16777216-" {
		t.Errorf("asked for %q", web.ranges)
	}
	web.mu.Unlock()
	if !bytes.Equal(download(t, b, nil), content) {
		t.Error("content differs")
	}
	must(b.SetMetadata(ctx, nil, nil))(t)
}

func TestPendingCopyEnds(t *testing.T) {
	t.Parallel()
	content := pattern(40<<20 + 100)
	web := newSource(t, content)
	web.cut = 10 << 20 // less than a chunk: it never gets on
	f := startWith(t, web.allow)
	c := f.container()
	b := c.NewBlobClient("b")
	must(b.StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	p := copied(t, b)
	if *p.CopyStatus != "failed" || !strings.HasPrefix(*p.CopyStatusDescription, "500 CannotVerifyCopySource") ||
		*p.ContentLength != 0 {
		t.Errorf("%s %s", *p.CopyStatus, *p.CopyStatusDescription)
	}
	// A source whose answers sometimes end early is asked for the rest.
	web.set(func() { web.cut = 17 << 20 })
	must(b.StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	if p = copied(t, b); *p.CopyStatus != "success" || !bytes.Equal(download(t, b, nil), content) {
		t.Errorf("%s, or the content differs", *p.CopyStatus)
	}
	// One that changes meanwhile is not.
	hold := make(chan struct{})
	web.set(func() { web.cut, web.hold = 17<<20, hold })
	must(b.StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	waitFor(t, func() bool { return *must(b.GetProperties(ctx, nil))(t).CopyProgress != "0/41943140" })
	web.set(func() { web.etag, web.cut, web.hold = `"v2"`, 0, nil })
	close(hold)
	if p = copied(t, b); *p.CopyStatus != "failed" || !strings.HasPrefix(*p.CopyStatusDescription, "412 ") {
		t.Errorf("%s %s", *p.CopyStatus, *p.CopyStatusDescription)
	}
	// Abort leaves an empty blob.
	hold = make(chan struct{})
	defer close(hold)
	web.set(func() { web.cut, web.hold = 17<<20, hold })
	r := must(b.StartCopyFromURL(ctx, web.URL+"/file",
		&blob.StartCopyFromURLOptions{Metadata: map[string]*string{"A": to.Ptr("1")}}))(t)
	_, err := b.AbortCopyFromURL(ctx, "00000000-0000-0000-0000-000000000001", nil)
	wantCode(t, err, 409, "CopyIdMismatch")
	must(b.AbortCopyFromURL(ctx, *r.CopyID, nil))(t)
	if p = copied(t, b); *p.CopyStatus != "aborted" || *p.ContentLength != 0 || *p.Metadata["A"] != "1" {
		t.Errorf("%+v", p)
	}
	_, err = b.AbortCopyFromURL(ctx, *r.CopyID, nil)
	wantCode(t, err, 409, "NoPendingCopyOperation")
	// A container that is deleted takes its copies with it, and a leased blob needs a lease that lasts.
	must(b.StartCopyFromURL(ctx, web.URL+"/file", nil))(t)
	must(c.Delete(ctx, nil))(t)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestPendingCopyOfPages(t *testing.T) {
	t.Parallel()
	content := pattern(17 << 20)
	web := newSource(t, content)
	f := startWith(t, web.allow)
	c := f.container()
	b := c.NewPageBlobClient("b")
	must(b.StartCopyFromURL(ctx, web.URL+"/page", nil))(t)
	if p := copied(t, b.BlobClient()); *p.BlobType != "PageBlob" || *p.CopyStatus != "success" {
		t.Errorf("%+v", p)
	}
	must(b.UploadPages(ctx, body(strings.Repeat("x", 512)), blob.HTTPRange{Offset: 1024, Count: 512},
		&pageblob.UploadPagesOptions{}))(t)
	copy(content[1024:], strings.Repeat("x", 512))
	if !bytes.Equal(download(t, b, nil), content) {
		t.Error("content differs")
	}
	// A lease that may end before the copy does not do.
	lease := "00000000-0000-0000-0000-000000000001"
	f.do("PUT", "/"+containerOf(c.URL())+"/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "15",
		"x-ms-proposed-lease-id", lease).want(t, 201, "")
	f.do("PUT", "/"+containerOf(c.URL())+"/b", "", "x-ms-copy-source", web.URL+"/page", "x-ms-lease-id", lease).want(t,
		412, "InfiniteLeaseDurationRequired")
}

func second[T any](_ T, err error) error { return err }

func containerOf(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	check.Eventually(t, ready, "the copy does not get there")
}
