package blobsvc_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
)

func TestAppendBlock(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewAppendBlobClient("a")
	_, err := b.AppendBlock(ctx, body("x"), nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Create(ctx, nil))(t)
	want := ""
	for i := range 30 {
		text := strings.Repeat(strconv.Itoa(i), i+1)
		resp := must(b.AppendBlock(ctx, body(text), nil))(t)
		if *resp.BlobAppendOffset != strconv.Itoa(len(want)) || *resp.BlobCommittedBlockCount != int32(i+1) {
			t.Fatalf("%d: at %s, %d blocks", i, *resp.BlobAppendOffset, *resp.BlobCommittedBlockCount)
		}
		want += text
	}
	if got := string(download(t, b, nil)); got != want {
		t.Error("content differs")
	}
	if got := string(download(t, b,
		&blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 100, Count: 200}})); got != want[100:300] {
		t.Error("range differs")
	}
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.BlobCommittedBlockCount != 30 || *p.BlobType != blob.BlobTypeAppendBlob {
		t.Errorf("%+v", p)
	}
	cond := func(pos, size *int64) *appendblob.AppendBlockOptions {
		return &appendblob.AppendBlockOptions{
			AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: pos, MaxSize: size}}
	}
	n := int64(len(want))
	_, err = b.AppendBlock(ctx, body("x"), cond(to.Ptr(n-1), nil))
	wantCode(t, err, 412, "AppendPositionConditionNotMet")
	_, err = b.AppendBlock(ctx, body("xx"), cond(nil, to.Ptr(n+1)))
	wantCode(t, err, 412, "MaxBlobSizeConditionNotMet")
	must(b.AppendBlock(ctx, body("x"), cond(&n, to.Ptr(n+1))))(t)
	name := strings.Split(c.URL(), "/")[4]
	f.do("PUT", "/"+name+"/a?comp=appendblock", "").want(t, 400, "InvalidHeaderValue")
	f.do("PUT", "/"+name+"/a?comp=appendblock", "x", "Content-MD5", md5Of(nil)).want(t, 400, "Md5Mismatch")
	f.do("PUT", "/"+name+"/new", "x", "x-ms-blob-type", "AppendBlob").want(t, 400, "InvalidHeaderValue")
	must(c.NewBlockBlobClient("block").Upload(ctx, body("x"), nil))(t)
	f.do("PUT", "/"+name+"/block?comp=appendblock", "x").want(t, 409, "InvalidBlobType")
}

// Concurrent appends each land once, whole, at the offset that was answered.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewAppendBlobClient("a")
	must(b.Create(ctx, nil))(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	at := map[int64]string{}
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				text := strings.Repeat(string(rune('a'+i)), 3+i)
				resp, err := b.AppendBlock(ctx, body(text), nil)
				if err != nil {
					t.Error(err)
					return
				}
				off, _ := strconv.ParseInt(*resp.BlobAppendOffset, 10, 64)
				mu.Lock()
				at[off] = text
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got := string(download(t, b, nil))
	total := 0
	for off, text := range at {
		total += len(text)
		if off > int64(len(got)) || !strings.HasPrefix(got[off:], text) {
			t.Errorf("at %d: no %q in %q", off, text, got)
		}
	}
	if total != len(got) || len(at) != 80 {
		t.Errorf("%d appends of %d bytes in all, %d in the blob", len(at), total, len(got))
	}
}

func TestSealAppendBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewAppendBlobClient("a")
	must(b.Create(ctx, nil))(t)
	must(b.AppendBlock(ctx, body("x"), nil))(t)
	_,
		err := b.Seal(ctx,
		&appendblob.SealOptions{
			AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: to.Ptr(int64(0))}})
	wantCode(t, err, 412, "AppendPositionConditionNotMet")
	for range 2 {
		if r := must(b.Seal(ctx, nil))(t); !*r.IsSealed {
			t.Error("not sealed")
		}
	}
	_, err = b.AppendBlock(ctx, body("x"), nil)
	wantCode(t, err, 409, "BlobIsSealed")
	if p := must(b.GetProperties(ctx, nil))(t); !*p.IsSealed {
		t.Error("not sealed")
	}
}
