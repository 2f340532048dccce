package blobsvc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPutPage(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewPageBlobClient("p")
	_, err := b.UploadPages(ctx, body(string(make([]byte, 512))), blob.HTTPRange{Count: 512}, nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Create(ctx, 4096, &pageblob.CreateOptions{SequenceNumber: to.Ptr(int64(3))}))(t)
	page := string(randomBytes(512))
	resp := must(b.UploadPages(ctx, body(page), blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	if *resp.BlobSequenceNumber != 3 || resp.ETag == nil {
		t.Errorf("%+v", resp)
	}
	want := strings.Repeat("\x00", 512) + page + strings.Repeat("\x00", 3072)
	if got := string(download(t, b, nil)); got != want {
		t.Error("content differs")
	}
	must(b.ClearPages(ctx, blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	if got := string(download(t, b, nil)); strings.Trim(got, "\x00") != "" || len(got) != 4096 {
		t.Error("cleared content differs")
	}
	name := strings.Split(c.URL(), "/")[4]
	at := "/" + name + "/p?comp=page"
	for _, tc := range []struct {
		name, content string
		headers       []string
		status        int
		code          string
	}{
		{"no range", page, []string{"x-ms-page-write", "update"}, 400, "MissingRequiredHeader"},
		{"no action", page, []string{"x-ms-range", "bytes=0-511"}, 400, "MissingRequiredHeader"},
		{"unknown action", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "erase"}, 400,
			"InvalidHeaderValue"},
		{"unaligned", page, []string{"x-ms-range", "bytes=1-512", "x-ms-page-write", "update"}, 416, "InvalidPageRange"},
		{"past the end", page, []string{"x-ms-range", "bytes=4096-4607", "x-ms-page-write", "update"}, 416,
			"InvalidPageRange"},
		{"wrong length", page, []string{"x-ms-range", "bytes=0-1023", "x-ms-page-write", "update"}, 400,
			"InvalidHeaderValue"},
		{"clear with a body", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "clear"}, 400,
			"InvalidHeaderValue"},
		{"wrong MD5", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update", "Content-MD5", md5Of(nil)},
			400, "Md5Mismatch"},
		{"sequence number <", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update",
			"x-ms-if-sequence-number-lt", "3"}, 412, "SequenceNumberConditionNotMet"},
		{"sequence number <=", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update",
			"x-ms-if-sequence-number-le", "2"}, 412, "SequenceNumberConditionNotMet"},
		{"sequence number =", page, []string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update",
			"x-ms-if-sequence-number-eq", "4"}, 412, "SequenceNumberConditionNotMet"},
		{"sequence numbers hold", page,
			[]string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update", "x-ms-if-sequence-number-eq", "3",
				"x-ms-if-sequence-number-le", "3"}, 201, ""},
	} {
		t.Run(tc.name, func(t *testing.T) { f.do("PUT", at, tc.content, tc.headers...).want(t, tc.status, tc.code) })
	}
	f.do("PUT", "/"+name+"/q", "", "x-ms-blob-type", "PageBlob").want(t, 400, "MissingRequiredHeader")
	for _, size := range []string{"511", "-512", "8796093022720", "x"} {
		f.do("PUT", "/"+name+"/q", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", size).want(t, 400,
			"InvalidHeaderValue")
	}
	must(c.NewBlockBlobClient("block").Upload(ctx, body("x"), nil))(t)
	f.do("PUT", "/"+name+"/block?comp=page", page, "x-ms-range", "bytes=0-511", "x-ms-page-write", "update").want(t, 409,
		"InvalidBlobType")
}

// An 8 TiB page blob costs what was written to it.
func TestSparsePageBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewPageBlobClient("p")
	const size = 8 << 40
	must(b.Create(ctx, size, nil))(t)
	page := string(randomBytes(512))
	must(b.UploadPages(ctx, body(page), blob.HTTPRange{Offset: size - 512, Count: 512}, nil))(t)
	if got := string(download(t, b,
		&blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: size - 1024, Count: 1024}})); got != strings.Repeat("\x00",
		512)+page {
		t.Error("the end differs")
	}
	pager := b.NewGetPageRangesPager(nil)
	ranges := must(pager.NextPage(ctx))(t)
	if len(ranges.PageRange) != 1 || *ranges.PageRange[0].Start != size-512 || *ranges.PageRange[0].End != size-1 ||
		*ranges.BlobContentLength != size {
		t.Errorf("%+v", ranges)
	}
}

func TestGetPageRanges(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewPageBlobClient("p")
	must(b.Create(ctx, 1<<20, nil))(t)
	put := func(page, n int64) {
		must(b.UploadPages(ctx, body(string(randomBytes(int(512*n)))), blob.HTTPRange{Offset: 512 * page, Count: 512 * n},
			nil))(t)
	}
	put(0, 2)
	put(2, 1)
	put(10, 4)
	snap := must(b.CreateSnapshot(ctx, nil))(t)
	must(b.ClearPages(ctx, blob.HTTPRange{Offset: 512 * 11, Count: 512}, nil))(t)
	put(1, 1)
	put(20, 1)
	name := strings.Split(c.URL(), "/")[4]
	for _, tc := range []struct {
		query   string
		headers []string
		want    string
	}{
		{"", nil, "0-1535 5120-5631 6144-7167 10240-10751 "},
		{"", []string{"x-ms-range", "bytes=600-5200"}, "512-1535 5120-5631 "},
		{"&snapshot=" + *snap.Snapshot, nil, "0-1535 5120-7167 "},
		{"&prevsnapshot=" + *snap.Snapshot, nil, "512-1023 clear 5632-6143 10240-10751 "},
		{"&prevsnapshot=" + *snap.Snapshot, []string{"x-ms-range", "bytes=0-1023"}, "512-1023 "},
	} {
		r := f.do("GET", "/"+name+"/p?comp=pagelist"+tc.query, "", tc.headers...).want(t, 200, "")
		got := strings.NewReplacer("\ufeff", "", `<?xml version="1.0" encoding="utf-8"?>`, "", "<PageList>", "",
			"</PageList>", "", "<PageRange><Start>", "",
			"<ClearRange><Start>", "clear ", "</Start><End>", "-", "</End></PageRange>", " ", "</End></ClearRange>",
			" ").Replace(r.body)
		if got != tc.want {
			t.Errorf("%s %v: %q, want %q", tc.query, tc.headers, got, tc.want)
		}
	}
	f.do("GET", "/"+name+"/p?comp=pagelist&prevsnapshot=2020-01-01T00:00:00.0000000Z", "").want(t, 409,
		"PreviousSnapshotNotFound")
	var paged []string
	pager := b.NewGetPageRangesPager(&pageblob.GetPageRangesOptions{MaxResults: to.Ptr(int32(2))})
	for pages := 0; pager.More(); pages++ {
		for _, r := range must(pager.NextPage(ctx))(t).PageRange {
			paged = append(paged, fmt.Sprint(pages, *r.Start))
		}
	}
	if diff := cmp.Diff([]string{"0 0", "0 5120", "1 6144", "1 10240"}, paged); diff != "" {
		t.Error(diff)
	}
	f.do("GET", "/"+name+"/p?comp=pagelist&maxresults=0", "").want(t, 400, "OutOfRangeQueryParameterValue")
	f.do("GET", "/"+name+"/p?comp=pagelist&marker=x", "").want(t, 400, "InvalidQueryParameterValue")
	f.do("GET", "/"+name+"/p?comp=pagelist", "", "x-ms-previous-snapshot-url", "http://x").want(t, 400,
		"InvalidHeaderValue")
	f.do("GET", "/"+name+"/p?comp=pagelist", "", "x-ms-range", "bytes=1048576-").want(t, 416, "InvalidRange")
}

// Random writes, clears, resizes and snapshots of a page blob against a slice of bytes.
func TestPageBlobLikeAModel(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		b := c.NewPageBlobClient(fmt.Sprint("p", n))
		n++
		model := make([]byte, 512*16)
		must(b.Create(ctx, int64(len(model)), nil))(t)
		type frozen struct {
			snapshot string
			content  []byte
		}
		var snapshots []frozen
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			pages := len(model) / 512
			at := rapid.IntRange(0, max(pages-1, 0)).Draw(rt, "page")
			count := rapid.IntRange(1, 5).Draw(rt, "pages")
			count = min(count, pages-at)
			rng := blob.HTTPRange{Offset: int64(at) * 512, Count: int64(count) * 512}
			switch op := rapid.SampledFrom([]string{"write", "write", "clear", "resize", "snapshot"}).Draw(rt, "step"); {
			case op == "snapshot":
				snapshots = append(snapshots, frozen{*must(b.CreateSnapshot(ctx, nil))(t).Snapshot, bytes.Clone(model)})
			case op == "resize":
				pages := rapid.IntRange(0, 20).Draw(rt, "size")
				must(b.Resize(ctx, int64(pages)*512, nil))(t)
				next := make([]byte, pages*512)
				copy(next, model)
				model = next
			case count <= 0:
			case op == "write":
				content := bytes.Repeat([]byte{rapid.Byte().Draw(rt, "fill")}, count*512)
				must(b.UploadPages(ctx, body(string(content)), rng, nil))(t)
				copy(model[at*512:], content)
			case op == "clear":
				must(b.ClearPages(ctx, rng, nil))(t)
				clear(model[at*512 : (at+count)*512])
			}
		}
		if got := download(t, b, nil); !bytes.Equal(got, model) {
			rt.Fatalf("content differs: %s", cmp.Diff(len(model), len(got)))
		}
		for _, s := range snapshots {
			if got := download(t, must(b.WithSnapshot(s.snapshot))(t), nil); !bytes.Equal(got, s.content) {
				rt.Fatal("a snapshot differs")
			}
		}
	})
}

// The difference to a snapshot goes by operations: pages that were written and cleared since are cleared ones, also if
// the snapshot is empty there.
func TestPageDiffShowsClearedPages(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "4096").want(t, 201, "")
	snapshot := func() string {
		return f.do("PUT", "/box/p?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	}
	write := func(kind, pages, content string) {
		f.do("PUT", "/box/p?comp=page", content, "x-ms-page-write", kind, "x-ms-range", "bytes="+pages).want(t, 201, "")
	}
	diff := func(query string) string {
		body := f.do("GET", "/box/p?comp=pagelist"+query, "").want(t, 200, "").body
		_, list, _ := strings.Cut(body, "<PageList")
		return strings.NewReplacer("<Start>", "", "</Start><End>", "-", "</End>", "", "<PageRange>", "P", "<ClearRange>", "C",
			"</PageRange>", " ", "</ClearRange>", " ",
			"</PageList>", "", ">", "", " /", "").Replace(list)
	}
	empty := snapshot()
	write("update", "0-1535", strings.Repeat("x", 1536))
	written := snapshot()
	write("clear", "512-1023", "")
	write("clear", "2048-4095", "") // had nothing
	cleared := snapshot()
	for _, tc := range []struct{ query, want string }{
		{"", "P0-511 P1024-1535 "},
		{"&prevsnapshot=" + empty, "P0-511 C512-1023 P1024-1535 "},
		{"&prevsnapshot=" + written, "C512-1023 "},
		{"&prevsnapshot=" + cleared, ""},
		{"&snapshot=" + written + "&prevsnapshot=" + empty, "P0-1535 "},
	} {
		if got := diff(tc.query); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.query, got, tc.want)
		}
	}
	if got := f.do("GET", "/box/p", "").body; got != strings.Repeat("x", 512)+strings.Repeat("\x00", 512)+
		strings.Repeat("x", 512)+strings.Repeat("\x00", 2560) {
		t.Error("the content is wrong")
	}
	// Cleared once more, and then written again.
	write("clear", "512-1023", "")
	if got := diff("&prevsnapshot=" + cleared); got != "C512-1023 " {
		t.Errorf("cleared again: %q", got)
	}
	write("update", "512-1023", strings.Repeat("y", 512))
	if got := diff("&prevsnapshot=" + empty); got != "P0-1535 " {
		t.Errorf("written again: %q", got)
	}
}
