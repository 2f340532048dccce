package blobsvc_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// elsewhere is another service that holds the source of incremental copies, behind a proxy that counts and holds what
// it is asked for.
type elsewhere struct {
	*fixture
	t     *testing.T
	proxy *httptest.Server
	box   *container.Client
	src   *pageblob.Client
	token string

	mu     sync.Mutex
	asked  []string // ranges and differences
	bytes  int64    // of content that was sent
	hold   func(r *http.Request) chan struct{}
	tamper func(w http.ResponseWriter, r *http.Request) bool
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{fixture: start(t), t: t}
	target := must(url.Parse(e.base))(t)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target.Host})
	forward.ModifyResponse = func(r *http.Response) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if r.Request.Header.Get("Range") != "" {
			e.bytes += r.ContentLength
		}
		return nil
	}
	e.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		hold, tamper := e.hold, e.tamper
		if q := r.URL.Query(); q.Get("comp") == "pagelist" {
			e.asked = append(e.asked, strings.TrimSpace("ranges "+q.Get("prevsnapshot")))
		} else if rng := r.Header.Get("Range"); rng != "" {
			e.asked = append(e.asked, rng)
		}
		e.mu.Unlock()
		if hold != nil {
			if wait := hold(r); wait != nil {
				<-wait
			}
		}
		if tamper != nil && tamper(w, r) {
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(e.proxy.Close)
	e.box = e.container()
	e.src = e.box.NewPageBlobClient("disk")
	token := must(sas.BlobSignatureValues{ContainerName: containerOf(e.box.URL()),
		Permissions: (&sas.ContainerPermissions{Read: true}).String(),
		ExpiryTime:  e.now().Add(time.Hour)}.SignWithSharedKey(credential(t)))(t)
	e.token = token.Encode()
	return e
}

func (e *elsewhere) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// url is the source's, as another host has it.
func (e *elsewhere) url() string {
	return strings.Replace(e.src.URL(), e.base[:strings.LastIndex(e.base, "/")], e.proxy.URL, 1) + "?" + e.token
}

func (e *elsewhere) allow(c *blobhost.Config) {
	c.Egress = egress.Policy{Hosts: []string{strings.TrimPrefix(e.proxy.URL, "http://")}, Private: true}
	c.CopyPause = time.Millisecond
}

func (e *elsewhere) snapshot() string {
	e.t.Helper()
	return *must(e.src.CreateSnapshot(ctx, nil))(e.t).Snapshot
}

func (e *elsewhere) write(at int64, b []byte) {
	e.t.Helper()
	for len(b) > 0 {
		n := min(len(b), 4<<20)
		must(e.src.UploadPages(ctx, body(string(b[:n])), blob.HTTPRange{Offset: at, Count: int64(n)}, nil))(e.t)
		at, b = at+int64(n), b[n:]
	}
}

func TestIncrementalCopyFromElsewhere(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	f := startWith(t, e.allow)
	c := f.container()
	dst := c.NewPageBlobClient("dst")
	const size = 40 << 20 // three chunks
	want := pattern(size)
	must(e.src.Create(ctx, size, &pageblob.CreateOptions{Metadata: map[string]*string{"A": to.Ptr("1")},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("disk/image")}}))(t)
	e.write(0, want)
	copyNow := func(snap string) (at string) {
		t.Helper()
		e.set(func() { e.asked, e.bytes = nil, 0 })
		if r := must(dst.StartCopyIncremental(ctx, e.url(), snap, nil))(t); *r.CopyStatus != blob.CopyStatusTypePending {
			t.Fatalf("status %s", *r.CopyStatus)
		}
		p := copied(t, dst.BlobClient())
		if *p.CopyStatus != "success" || p.DestinationSnapshot == nil || !*p.IsIncrementalCopy {
			t.Fatalf("%s %v", *p.CopyStatus, p.CopyStatusDescription)
		}
		return *p.DestinationSnapshot
	}
	same := func(at string, want []byte) {
		t.Helper()
		if got := download(t, must(dst.WithSnapshot(at))(t), nil); !bytes.Equal(got, want) {
			t.Errorf("snapshot %s: %d bytes that are not the source's %d", at, len(got), len(want))
		}
	}
	first := copyNow(e.snapshot())
	same(first, want)
	if p := must(must(dst.WithSnapshot(first))(t).GetProperties(ctx, nil))(t); *p.Metadata["A"] != "1" ||
		*p.ContentType != "disk/image" {
		t.Errorf("%+v", p)
	}

	// Only what differs is fetched: two ranges near each other with one request, a far one with another, nothing for what
	// is cleared.
	old := bytes.Clone(want)
	for _, at := range []int64{512, 8192, 30 << 20} {
		e.write(at, []byte(strings.Repeat("x", 1024)))
		copy(want[at:], strings.Repeat("x", 1024))
	}
	must(e.src.ClearPages(ctx, blob.HTTPRange{Offset: 20 << 20, Count: 1 << 20}, nil))(t)
	clear(want[20<<20 : 21<<20])
	two := e.snapshot()
	second := copyNow(two)
	same(second, want)
	same(first, old)
	if e.bytes != 8192+512+1024 || len(e.asked) != 3 {
		t.Errorf("%d bytes in %q", e.bytes, e.asked)
	}
	ranges := must(must(dst.WithSnapshot(second))(t).NewGetPageRangesDiffPager(
		&pageblob.GetPageRangesDiffOptions{PrevSnapshot: &first}).NextPage(ctx))(t)
	if len(ranges.PageRange) != 3 || len(ranges.ClearRange) != 1 || *ranges.PageRange[1].Start != 8192 ||
		*ranges.ClearRange[0].End != 21<<20-1 {
		t.Errorf("the destination's differences: %d ranges, %d cleared", len(ranges.PageRange), len(ranges.ClearRange))
	}

	// Nothing changed; it grew; it shrank.
	same(copyNow(e.snapshot()), want)
	must(e.src.Resize(ctx, size+(1<<20), nil))(t)
	e.write(size+512, []byte(strings.Repeat("y", 512)))
	want = append(append(append(want, make([]byte, 512)...), strings.Repeat("y", 512)...), make([]byte, 1<<20-1024)...)
	same(copyNow(e.snapshot()), want)
	must(e.src.Resize(ctx, 1<<20, nil))(t)
	want = want[:1<<20]
	last := e.snapshot()
	same(copyNow(last), want)

	// The snapshot that was copied last is gone at the source: the next one is copied whole.
	must(must(e.src.WithSnapshot(last))(t).Delete(ctx, nil))(t)
	must(e.src.ClearPages(ctx, blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	clear(want[512:1024])
	same(copyNow(e.snapshot()), want)
	if e.bytes != 1<<20 || e.asked[1] != "ranges" {
		t.Errorf("%d bytes in %q", e.bytes, e.asked)
	}
	// Another token for the same blob is the same source; an earlier snapshot, or another blob, is refused.
	_, err := dst.StartCopyIncremental(ctx, e.url(), two, nil)
	wantCode(t, err, 409, "IncrementalCopyOfEarlierSnapshotNotAllowed")
	_, err = dst.StartCopyIncremental(ctx, strings.Replace(e.url(), "/disk", "/other", 1), two, nil)
	wantCode(t, err, 409, "IncrementalCopyBlobMismatch")
}

// The copy goes on where it was when the process stopped, and no request touches the destination meanwhile.
func TestIncrementalCopyResumes(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	f := startWith(t, func(c *blobhost.Config) { e.allow(c); manage(c, accountprops.Blob{Scopes: []string{"scope"}}) })
	c := f.service().NewContainerClient("box")
	must(c.Create(ctx, inScope))(t)
	const size = 40 << 20
	want := pattern(size)
	must(e.src.Create(ctx, size, nil))(t)
	e.write(0, want)
	hold := make(chan struct{})
	e.set(func() {
		e.hold = func(r *http.Request) chan struct{} {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=16777216-") {
				return hold
			}
			return nil
		}
	})
	dst := c.NewPageBlobClient("dst")
	snap := e.snapshot()
	must(dst.StartCopyIncremental(ctx, e.url(), snap, nil))(t)
	waitFor(t, func() bool { return *must(dst.GetProperties(ctx, nil))(t).CopyProgress == "16777216/41943040" })
	waitFor(t, func() (held bool) { // or it would count among those after the stop
		e.set(func() { held = slices.Contains(e.asked, "bytes=16777216-33554431") })
		return held
	})
	_, err := dst.StartCopyIncremental(ctx, e.url(), e.snapshot(), nil)
	wantCode(t, err, 409, "PendingCopyOperation")
	_, err = dst.Delete(ctx, nil)
	wantCode(t, err, 409, "PendingCopyOperation")
	e.set(func() { e.hold, e.asked = nil, nil })
	f.reopen()
	close(hold)
	dst = f.service().NewContainerClient("box").NewPageBlobClient("dst")
	p := copied(t, dst.BlobClient())
	if *p.CopyStatus != "success" || *p.CopyProgress != "41943040/41943040" {
		t.Fatalf("%s %s", *p.CopyStatus, *p.CopyProgress)
	}
	e.set(func() {
		if fmt.Sprint(e.asked) != "[ranges bytes=16777216-33554431 bytes=33554432-41943039]" {
			t.Errorf("asked for %q", e.asked)
		}
	})
	if got := download(t, must(dst.WithSnapshot(*p.DestinationSnapshot))(t), nil); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
	if f.atRest(string(want[:64])) {
		t.Error("content of a scope lies in the clear")
	}

	// Aborted, the destination stays as the last copy left it, and the next one succeeds.
	e.write(0, []byte(strings.Repeat("z", 512)))
	copy(want, strings.Repeat("z", 512))
	hold = make(chan struct{})
	e.set(func() {
		e.hold = func(r *http.Request) chan struct{} {
			return map[bool]chan struct{}{true: hold}[r.Header.Get("Range") != ""]
		}
	})
	next := e.snapshot()
	r := must(dst.StartCopyIncremental(ctx, e.url(), next, nil))(t)
	must(dst.AbortCopyFromURL(ctx, *r.CopyID, nil))(t)
	e.set(func() { e.hold = nil })
	close(hold)
	if p := copied(t, dst.BlobClient()); *p.CopyStatus != "aborted" {
		t.Errorf("%s", *p.CopyStatus)
	}
	must(dst.StartCopyIncremental(ctx, e.url(), next, nil))(t)
	p = copied(t, dst.BlobClient())
	if got := download(t, must(dst.WithSnapshot(*p.DestinationSnapshot))(t), nil); !bytes.Equal(got, want) {
		t.Error("content differs after an abort")
	}
}

// Random changes and snapshots arrive as they are at the source.
func TestIncrementalCopyOfRandomChanges(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	f := startWith(t, e.allow)
	dst := f.container().NewPageBlobClient("dst")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const pages = 3000
	must(e.src.Create(ctx, pages*512, nil))(t)
	snaps := map[string][]byte{}
	for range 6 {
		for range 40 {
			at := r.Int64N(pages)
			n := min(1+r.Int64N(100), pages-at)
			if r.IntN(3) == 0 {
				must(e.src.ClearPages(ctx, blob.HTTPRange{Offset: at * 512, Count: n * 512}, nil))(t)
			} else {
				e.write(at*512, []byte(strings.Repeat(string(rune('a'+r.IntN(26))), int(n)*512)))
			}
		}
		snap := e.snapshot()
		must(dst.StartCopyIncremental(ctx, e.url(), snap, nil))(t)
		p := copied(t, dst.BlobClient())
		if *p.CopyStatus != "success" {
			t.Fatalf("%s", *p.CopyStatusDescription)
		}
		snaps[*p.DestinationSnapshot] = download(t, must(e.src.WithSnapshot(snap))(t), nil)
	}
	for at, want := range snaps {
		if !bytes.Equal(download(t, must(dst.WithSnapshot(at))(t), nil), want) {
			t.Errorf("snapshot %s differs", at)
		}
	}
}

func TestIncrementalCopyFromElsewhereRefusals(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	f := startWith(t, e.allow)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	must(e.src.Create(ctx, 1<<20, nil))(t)
	e.write(0, pattern(4096))
	snap := e.snapshot()
	must(e.box.NewBlockBlobClient("text").Upload(ctx, body("x"), nil))(t)
	text := *must(e.box.NewBlockBlobClient("text").CreateSnapshot(ctx, nil))(t).Snapshot
	put := func(source string, more ...string) reply {
		return f.do("PUT", "/box/dst?comp=incrementalcopy", "", append([]string{"x-ms-copy-source", source}, more...)...)
	}
	put(e.url()).want(t, 409, "IncrementalCopySourceMustBeSnapshot")
	put(e.url()+"&snapshot=now").want(t, 400, "InvalidHeaderValue")
	put(strings.Replace(e.url(), "sig=", "sig=x", 1)+"&snapshot="+snap).want(t, 403, "CannotVerifyCopySource")
	put(e.url()+"&snapshot=2020-01-01T00:00:00.0000000Z").want(t, 404, "CannotVerifyCopySource")
	put(strings.Replace(e.url(), "/disk", "/text", 1)+"&snapshot="+text).want(t, 409, "InvalidSourceBlobType")
	put(e.url()+"&snapshot="+snap, "x-ms-copy-source-authorization", "Bearer x").want(t, 400, "UnsupportedHeader")
	put(e.url()+"&snapshot="+snap, "If-Match", `"x"`).want(t, 412, "ConditionNotMet")
	f.do("GET", "/box/dst", "").want(t, 404, "BlobNotFound")

	// A source whose answers are no page ranges fails the copy.
	for name, list := range map[string]string{
		"no XML": "<", "no list": "text",
		"not whole pages": "<PageList><PageRange><Start>1</Start><End>511</End></PageRange></PageList>",
		"past the end":    "<PageList><PageRange><Start>0</Start><End>10485759</End></PageRange></PageList>",
		"overlapping":     "<PageList><PageRange><Start>0</Start><End>1023</End></PageRange><PageRange><Start>512</Start><End>1023</End></PageRange></PageList>",
		"no end":          "<PageList><NextMarker>5</NextMarker></PageList>",
	} {
		t.Run(name, func(t *testing.T) {
			e.set(func() {
				e.tamper = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Query().Get("comp") != "pagelist" {
						return false
					}
					_, _ = w.Write([]byte(list))
					return true
				}
			})
			put(e.url()+"&snapshot="+snap).want(t, 202, "")
			p := copied(t, f.service().NewContainerClient("box").NewBlobClient("dst"))
			if *p.CopyStatus != "failed" || !strings.HasPrefix(*p.CopyStatusDescription, "400 CannotVerifyCopySource") {
				t.Errorf("%s %v", *p.CopyStatus, p.CopyStatusDescription)
			}
		})
	}
	e.set(func() { e.tamper = nil })
	put(e.url()+"&snapshot="+snap).want(t, 202, "")
	if p := copied(t, f.service().NewContainerClient("box").NewBlobClient("dst")); *p.CopyStatus != "success" {
		t.Errorf("after failures: %s", *p.CopyStatus)
	}
}
