package blobsvc_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
)

func TestSetBlobProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.SetHTTPHeaders(ctx, blob.HTTPHeaders{}, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("x"), nil))(t)
	set := must(b.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentType: to.Ptr("a/b"), BlobContentLanguage: to.Ptr("de")},
		nil))(t)
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.ContentType != "a/b" || *p.ContentLanguage != "de" || p.ContentMD5 != nil || *p.ETag != *set.ETag ||
		*p.ETag == *up.ETag {
		t.Errorf("%+v", p)
	}
	must(b.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobCacheControl: to.Ptr("none")}, nil))(t)
	if p = must(b.GetProperties(ctx, nil))(t); p.ContentType != nil || p.ContentLanguage != nil ||
		*p.CacheControl != "none" {
		t.Errorf("what was not given is not cleared: %+v", p)
	}
	other := azcore.ETag(`"0x1"`)
	_, err = b.SetHTTPHeaders(ctx, blob.HTTPHeaders{},
		&blob.SetHTTPHeadersOptions{AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &other}}})
	wantCode(t, err, 412, "ConditionNotMet")
}

func TestSetBlobPropertiesOfPages(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewPageBlobClient("p")
	must(b.Create(ctx, 1024, &pageblob.CreateOptions{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("a/b")}}))(t)
	must(b.UploadPages(ctx, body(string(randomBytes(1024))), blob.HTTPRange{Count: 1024}, nil))(t)
	must(b.Resize(ctx, 512, nil))(t)
	must(b.Resize(ctx, 2048, nil))(t)
	want := append(randomBytes(1024)[:512], make([]byte, 1536)...)
	if got := download(t, b, nil); string(got) != string(want) {
		t.Errorf("%d bytes after resizing, or what was cut off came back", len(got))
	}
	for _, step := range []struct {
		action pageblob.SequenceNumberActionType
		number *int64
		want   int64
	}{{pageblob.SequenceNumberActionTypeUpdate, to.Ptr(int64(7)), 7},
		{pageblob.SequenceNumberActionTypeMax, to.Ptr(int64(5)), 7},
		{pageblob.SequenceNumberActionTypeMax, to.Ptr(int64(9)), 9}, {pageblob.SequenceNumberActionTypeIncrement, nil, 10}} {
		resp := must(b.UpdateSequenceNumber(ctx,
			&pageblob.UpdateSequenceNumberOptions{ActionType: &step.action, SequenceNumber: step.number}))(t)
		if *resp.BlobSequenceNumber != step.want {
			t.Errorf("%s: %d, want %d", step.action, *resp.BlobSequenceNumber, step.want)
		}
	}
	if p := must(b.GetProperties(ctx, nil))(t); *p.ContentType != "a/b" || *p.BlobSequenceNumber != 10 {
		t.Errorf("%+v", p)
	}
	_, err := b.Resize(ctx, 100, nil)
	wantCode(t, err, 400, "InvalidHeaderValue")
}

func TestSetBlobMetadata(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	_, err := b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("x"), &blockUpload{Metadata: map[string]*string{"Old": to.Ptr("1")}}))(t)
	set := must(b.SetMetadata(ctx, map[string]*string{"New": to.Ptr("2")}, nil))(t)
	p := must(b.GetProperties(ctx, nil))(t)
	if len(p.Metadata) != 1 || *p.Metadata["New"] != "2" || *p.ETag != *set.ETag || *p.ETag == *up.ETag ||
		!*set.IsServerEncrypted {
		t.Errorf("%+v", p)
	}
	other := azcore.ETag(`"0x1"`)
	_, err = b.SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &other}}})
	wantCode(t, err, 412, "ConditionNotMet")
	_, err = b.SetMetadata(ctx, map[string]*string{"1a": to.Ptr("b")}, nil)
	wantCode(t, err, 400, "InvalidMetadata")
}
