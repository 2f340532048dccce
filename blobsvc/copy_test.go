package blobsvc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

func TestCopyBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	src := c.NewBlockBlobClient("src")
	for i := range 20 {
		must(src.StageBlock(ctx, blockName(i), body(fmt.Sprint(i)), nil))(t)
	}
	var ids []string
	for i := range 20 {
		ids = append(ids, blockName(i))
	}
	must(src.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{Metadata: map[string]*string{"A": to.Ptr("1")},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("a/b")}}))(t)
	want := download(t, src, nil)
	dst := c.NewBlockBlobClient("dst")
	resp := must(dst.StartCopyFromURL(ctx, src.URL(), nil))(t)
	if *resp.CopyStatus != "success" || *resp.CopyID == "" {
		t.Errorf("%+v", resp)
	}
	p := must(dst.GetProperties(ctx, nil))(t)
	if *p.CopyID != *resp.CopyID || *p.CopyProgress != fmt.Sprintf("%d/%d", len(want), len(want)) ||
		*p.CopySource != src.URL() ||
		*p.ContentType != "a/b" || *p.Metadata["A"] != "1" || *p.ETag != *resp.ETag {
		t.Errorf("%+v", p)
	}
	// The copy lives on without its source, and is collected with the last reference.
	must(src.Delete(ctx, nil))(t)
	if string(download(t, dst, nil)) != string(want) {
		t.Error("content differs")
	}
	if l := must(dst.GetBlockList(ctx, blockblob.BlockListTypeCommitted, nil))(t); len(l.CommittedBlocks) != 20 {
		t.Errorf("%d blocks", len(l.CommittedBlocks))
	}
	must(dst.StartCopyFromURL(ctx, dst.URL(),
		&blob.StartCopyFromURLOptions{Metadata: map[string]*string{"B": to.Ptr("2")}}))(t)
	if p := must(dst.GetProperties(ctx, nil))(t); len(p.Metadata) != 1 || *p.Metadata["B"] != "2" {
		t.Errorf("metadata %v", p.Metadata)
	}
	must(dst.Delete(ctx, nil))(t)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	if audit := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t); audit.Live != 0 {
		t.Errorf("left over: %+v", audit)
	}
}

func TestCopyBlobRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/src", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/box/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	source := f.base + "/box/src"
	for _, tc := range []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"no such blob", []string{"x-ms-copy-source", f.base + "/box/none"}, 404, "BlobNotFound"},
		{"no such container", []string{"x-ms-copy-source", f.base + "/none/b"}, 404, "ContainerNotFound"},
		{"no URL", []string{"x-ms-copy-source", "box/src"}, 400, "InvalidHeaderValue"},
		{"too long", []string{"x-ms-copy-source", source + strings.Repeat("x", 2048)}, 400, "InvalidHeaderValue"},
		{"another service", []string{"x-ms-copy-source", "https://example.com/devstoreaccount1/box/src"}, 403,
			"CannotVerifyCopySource"},
		{"another account", []string{"x-ms-copy-source", strings.Replace(source, "devstoreaccount1", "other", 1)}, 403,
			"CannotVerifyCopySource"},
		{"source condition", []string{"x-ms-copy-source", source, "x-ms-source-if-match", `"0x1"`}, 412,
			"SourceConditionNotMet"},
		{"condition", []string{"x-ms-copy-source", source, "If-Match", `"0x1"`}, 412, "TargetConditionNotMet"},
		{"metadata", []string{"x-ms-copy-source", source, "x-ms-meta-1", "x"}, 400, "InvalidMetadata"},
		{"another type", []string{"x-ms-copy-source", f.base + "/box/page"}, 409, "InvalidBlobType"},
		{"token for the source", []string{"x-ms-copy-source", source, "x-ms-copy-source-authorization", "Bearer x"}, 403,
			"CannotVerifyCopySource"},
		{"another scheme", []string{"x-ms-copy-source", source, "x-ms-copy-source-authorization", "Basic x"}, 400,
			"InvalidHeaderValue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", "/box/dst", "old", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
			f.do("PUT", "/box/dst", "", tc.headers...).want(t, tc.status, tc.code)
			if r := f.do("GET", "/box/dst", ""); r.body != "old" {
				t.Errorf("the refused copy left %q", r.body)
			}
		})
	}
}

// A caller without the account's key reads a source with the SAS in its URL, or not at all.
func TestCopyNeedsAccessToItsSource(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	must(c.NewBlockBlobClient("src").Upload(ctx, body("secret"), nil))(t)
	now := time.Now().Add(-time.Minute)
	write := must(c.NewBlobClient("dst").GetSASURL(sas.BlobPermissions{Create: true, Write: true}, now.Add(time.Hour),
		nil))(t)
	read := must(c.NewBlobClient("src").GetSASURL(sas.BlobPermissions{Read: true}, now.Add(time.Hour), nil))(t)
	wrong := must(c.NewBlobClient("src").GetSASURL(sas.BlobPermissions{Delete: true}, now.Add(time.Hour), nil))(t)
	dst := must(blob.NewClientWithNoCredential(write, &blob.ClientOptions{ClientOptions: noRetries}))(t)
	_, err := dst.StartCopyFromURL(ctx, c.NewBlobClient("src").URL(), nil)
	wantCode(t, err, 401, "CannotVerifyCopySource")
	_, err = dst.StartCopyFromURL(ctx, wrong, nil)
	wantCode(t, err, 403, "CannotVerifyCopySource")
	must(dst.StartCopyFromURL(ctx, read, nil))(t)
	if got := download(t, c.NewBlobClient("dst"), nil); string(got) != "secret" {
		t.Errorf("content %q", got)
	}
}

func TestCopyBlobFromURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	src := c.NewBlockBlobClient("src")
	must(src.Upload(ctx, body("content"), &blockUpload{Tags: map[string]string{"k": "v"}}))(t)
	dst := c.NewBlockBlobClient("dst")
	resp := must(dst.CopyFromURL(ctx, src.URL(), &blob.CopyFromURLOptions{Tier: to.Ptr(blob.AccessTierCool)}))(t)
	if *resp.CopyStatus != "success" || string(download(t, dst, nil)) != "content" {
		t.Errorf("%+v", resp)
	}
	if p := must(dst.GetProperties(ctx, nil))(t); p.TagCount != nil || *p.AccessTier != "Cool" {
		t.Errorf("%+v", p)
	}
	name := strings.Split(c.URL(), "/")[4]
	f.do("PUT", "/"+name+"/dst", "", "x-ms-copy-source", src.URL(), "x-ms-requires-sync", "true",
		"x-ms-copy-source-tag-option", "COPY").want(t, 202, "")
	if r := f.do("GET", "/"+name+"/dst?comp=tags", "").want(t, 200, ""); !strings.Contains(r.body, "<Key>k</Key>") {
		t.Error(r.body)
	}
	f.do("PUT", "/"+name+"/dst", "", "x-ms-copy-source", src.URL(), "x-ms-requires-sync", "yes").want(t, 400,
		"InvalidHeaderValue")
	f.do("PUT", "/"+name+"/dst", "", "x-ms-copy-source", src.URL(), "x-ms-requires-sync", "true",
		"x-ms-source-content-md5", md5Of(nil)).want(t, 400, "Md5Mismatch")
	f.do("PUT", "/"+name+"/dst", "", "x-ms-copy-source", src.URL(), "x-ms-requires-sync", "true", "x-ms-source-if-match",
		`"0x1"`).want(t, 412, "CannotVerifyCopySource")

	for source, headers := range map[string][]string{"append": {"x-ms-blob-type", "AppendBlob"},
		"page": {"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512"}} {
		f.do("PUT", "/"+name+"/"+source, "", headers...).want(t, 201, "")
		r := f.do("PUT", "/"+name+"/dst", "", "x-ms-copy-source", c.NewBlobClient(source).URL(), "x-ms-requires-sync",
			"true").want(t, 409, "CannotVerifyCopySource")
		if !strings.Contains(r.body, "The copy source must be a block blob.") {
			t.Errorf("%s: %s", source, r.body)
		}
	}
}

func TestAbortCopyBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	must(b.Upload(ctx, body("x"), nil))(t)
	_, err := b.AbortCopyFromURL(ctx, leaseA, nil)
	wantCode(t, err, 409, "NoPendingCopyOperation")
	_, err = b.AbortCopyFromURL(ctx, "x", nil)
	wantCode(t, err, 400, "InvalidQueryParameterValue")
}

func TestPutBlobFromURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.publicContainer()
	src, dst := c.NewBlockBlobClient("src"), c.NewBlockBlobClient("dst")
	content := randomBytes(300 << 10)
	must(src.Upload(ctx, body(string(content)),
		&blockUpload{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("a/b")}}))(t)
	must(dst.UploadBlobFromURL(ctx, src.URL(), nil))(t)
	p := must(dst.GetProperties(ctx, nil))(t)
	if string(download(t, dst, nil)) != string(content) || *p.ContentType != "a/b" || p.CopyID != nil {
		t.Errorf("%+v", p)
	}
	must(dst.UploadBlobFromURL(ctx, src.URL(),
		&blockblob.UploadBlobFromURLOptions{CopySourceBlobProperties: to.Ptr(false)}))(t)
	if p := must(dst.GetProperties(ctx, nil))(t); *p.ContentType != "application/octet-stream" {
		t.Errorf("type %s", *p.ContentType)
	}
	must(src.SetTags(ctx, map[string]string{"k": "v"}, nil))(t)
	for option, tagged := range map[blockblob.BlobCopySourceTags]bool{blockblob.BlobCopySourceTagsReplace: false,
		blockblob.BlobCopySourceTagsCopy: true} {
		// any client may read the blob, not its tags
		signed := must(src.GetSASURL(sas.BlobPermissions{Read: true, Tag: true}, f.now().Add(time.Hour), nil))(t)
		must(dst.UploadBlobFromURL(ctx, signed, &blockblob.UploadBlobFromURLOptions{CopySourceTags: &option}))(t)
		if p := must(dst.GetProperties(ctx, nil))(t); (p.TagCount != nil) != tagged {
			t.Errorf("%s: %v tags", option, p.TagCount)
		}
	}
	_, err := dst.UploadBlobFromURL(ctx, src.URL(),
		&blockblob.UploadBlobFromURLOptions{CopySourceTags: to.Ptr(blockblob.BlobCopySourceTags("BOTH"))})
	wantCode(t, err, 400, "InvalidHeaderValue")
	_, err = dst.UploadBlobFromURL(ctx, c.NewBlobClient("none").URL(), nil)
	wantCode(t, err, 404, "CannotVerifyCopySource")
}

func TestPutBlockFromURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.publicContainer()
	src, dst := c.NewBlockBlobClient("src"), c.NewBlockBlobClient("dst")
	must(src.Upload(ctx, body("0123456789"), nil))(t)
	must(dst.StageBlockFromURL(ctx, blockName(1), src.URL(),
		&blockblob.StageBlockFromURLOptions{Range: blob.HTTPRange{Offset: 2, Count: 3}}))(t)
	must(dst.StageBlockFromURL(ctx, blockName(2), src.URL(), nil))(t)
	must(dst.CommitBlockList(ctx, []string{blockName(1), blockName(2)}, nil))(t)
	if got := download(t, dst, nil); string(got) != "2340123456789" {
		t.Errorf("content %q", got)
	}
	name := strings.Split(c.URL(), "/")[4]
	at := "/" + name + "/dst?comp=block&blockid=YQ=="
	f.do("PUT", at, "", "x-ms-copy-source", src.URL(), "x-ms-source-content-md5", md5Of(nil)).want(t, 400, "Md5Mismatch")
	f.do("PUT", at, "", "x-ms-copy-source", src.URL(), "x-ms-source-range", "bytes=10-").want(t, 416, "InvalidRange")
	f.do("PUT", at, "", "x-ms-copy-source", src.URL(), "x-ms-source-if-none-match", "*").want(t, 304,
		"CannotVerifyCopySource")
	f.do("PUT", at, "body", "x-ms-copy-source", src.URL()).want(t, 400, "InvalidHeaderValue")
}

func TestAppendBlockFromURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.publicContainer()
	src, dst := c.NewBlockBlobClient("src"), c.NewAppendBlobClient("dst")
	must(src.Upload(ctx, body("0123456789"), nil))(t)
	must(dst.Create(ctx, nil))(t)
	must(dst.AppendBlockFromURL(ctx, src.URL(),
		&appendblob.AppendBlockFromURLOptions{Range: blob.HTTPRange{Offset: 5, Count: 5}}))(t)
	resp := must(dst.AppendBlockFromURL(ctx, src.URL(), nil))(t)
	if *resp.BlobAppendOffset != "5" || *resp.BlobCommittedBlockCount != 2 ||
		string(download(t, dst, nil)) != "567890123456789" {
		t.Errorf("%+v", resp)
	}
}

func TestPutPageFromURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.publicContainer()
	src, dst := c.NewPageBlobClient("src"), c.NewPageBlobClient("dst")
	content := string(randomBytes(1024))
	for _, p := range []*pageblob.Client{src, dst} {
		must(p.Create(ctx, 1024, nil))(t)
	}
	must(src.UploadPages(ctx, body(content), blob.HTTPRange{Count: 1024}, nil))(t)
	must(dst.UploadPagesFromURL(ctx, src.URL(), 512, 0, 512, nil))(t)
	if got := download(t, dst, nil); string(got) != content[512:]+strings.Repeat("\x00", 512) {
		t.Error("content differs")
	}
	_, err := dst.UploadPagesFromURL(ctx, src.URL(), 1024, 0, 512, nil)
	wantCode(t, err, 416, "InvalidRange")
}
