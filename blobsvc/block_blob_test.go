package blobsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/go-cmp/cmp"
)

type blockUpload = blockblob.UploadOptions

// blockName is a block id of 8 bytes.
func blockName(i int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "block%03d", i))
}

// crcOf is Azure's CRC64 by the standard library, against which the vector code is checked.
func crcOf(b []byte) string {
	sum := crc64.Checksum(b, crc64.MakeTable(0x9A6C9329AC4BC9B5))
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, sum))
}

func md5Of(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(b)
	return b
}

func download(t tester, c interface {
	DownloadStream(ctx context.Context, o *blob.DownloadStreamOptions) (blob.DownloadStreamResponse, error)
}, o *blob.DownloadStreamOptions) []byte {
	t.Helper()
	resp := must(c.DownloadStream(ctx, o))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPutBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	for _, size := range []int{0, 1, 4096, 256 << 10, 256<<10 + 1, 3 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			content := randomBytes(size)
			b := c.NewBlockBlobClient(fmt.Sprint("size", size))
			resp := must(b.Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), nil))(t)
			if got := base64.StdEncoding.EncodeToString(resp.ContentMD5); got != md5Of(content) {
				t.Errorf("MD5 %s, want %s", got, md5Of(content))
			}
			if !*resp.IsServerEncrypted {
				t.Error("not said to be encrypted")
			}
			p := must(b.GetProperties(ctx, nil))(t)
			if *p.ContentLength != int64(size) || *p.ContentType != "application/octet-stream" || *p.ETag != *resp.ETag ||
				base64.StdEncoding.EncodeToString(p.ContentMD5) != md5Of(content) {
				t.Errorf("properties %+v", p)
			}
			if !bytes.Equal(download(t, b, nil), content) {
				t.Error("content differs")
			}
		})
	}
}

func TestPutBlobKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	sum := md5.Sum([]byte("content"))
	_, err := b.Upload(ctx, body("content"), &blockUpload{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/plain"), BlobContentEncoding: to.Ptr("identity"),
			BlobContentLanguage: to.Ptr("de"), BlobContentDisposition: to.Ptr("inline"), BlobCacheControl: to.Ptr("no-cache"),
			BlobContentMD5: sum[:]},
		Metadata: map[string]*string{"Camel": to.Ptr("Case")},
		Tags:     map[string]string{"k": "v"},
		Tier:     to.Ptr(blob.AccessTierCool),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := must(b.GetProperties(ctx, nil))(t)
	got := []any{*p.ContentType, *p.ContentEncoding, *p.ContentLanguage, *p.ContentDisposition, *p.CacheControl,
		[16]byte(p.ContentMD5),
		*p.Metadata["Camel"], *p.TagCount, *p.AccessTier, p.AccessTierInferred == nil, *p.BlobType}
	want := []any{"text/plain", "identity", "de", "inline", "no-cache", sum, "Case", int64(1), "Cool", true,
		blob.BlobTypeBlockBlob}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	created := *p.CreationTime
	f.advance(5 * time.Second)
	// Overwriting clears what is not given again, and keeps the time of creation.
	if _, err := b.Upload(ctx, body("more"), nil); err != nil {
		t.Fatal(err)
	}
	p = must(b.GetProperties(ctx, nil))(t)
	if !p.CreationTime.Equal(created) || !p.LastModified.After(created) {
		t.Errorf("created %v, then %v, changed %v", created, p.CreationTime, p.LastModified)
	}
	if *p.ContentType != "application/octet-stream" || p.ContentEncoding != nil || len(p.Metadata) != 0 ||
		p.TagCount != nil || *p.AccessTier != "Hot" {
		t.Errorf("left over: %+v", p)
	}
}

func TestPutBlobRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	blockBlob := []string{"x-ms-blob-type", "BlockBlob"}
	with := func(more ...string) []string { return append(more, blockBlob...) }
	for _, tc := range []struct {
		name, path, content string
		headers             []string
		status              int
		code                string
	}{
		{"no container", "/none/b", "x", blockBlob, 404, "ContainerNotFound"},
		{"no type", "/box/b", "x", nil, 400, "MissingRequiredHeader"},
		{"unknown type", "/box/b", "x", []string{"x-ms-blob-type", "Blob"}, 400, "InvalidHeaderValue"},
		{"empty name", "/box/", "x", blockBlob, 400, "InvalidUri"},
		{"no UTF-8", "/box/%ff", "x", blockBlob, 400, "InvalidUri"},
		{"long name", "/box/" + strings.Repeat("a", 1025), "x", blockBlob, 400, "OutOfRangeInput"},
		{"many segments", "/box/" + strings.Repeat("a/", 255) + "a", "x", blockBlob, 400, "InvalidUri"},
		{"wrong MD5", "/box/b", "x", with("Content-MD5", md5Of([]byte("y"))), 400, "Md5Mismatch"},
		{"no MD5", "/box/b", "x", with("Content-MD5", "abc"), 400, "InvalidMd5"},
		{"wrong CRC64", "/box/b", "x", with("x-ms-content-crc64", crcOf([]byte("y"))), 400, "Crc64Mismatch"},
		{"no CRC64", "/box/b", "x", with("x-ms-content-crc64", "abc"), 400, "InvalidHeaderValue"},
		{"both hashes", "/box/b", "x", with("x-ms-content-crc64", crcOf([]byte("x")), "Content-MD5", md5Of([]byte("x"))), 400,
			"BothCrc64AndMd5HeaderPresent"},
		{"MD5 of another content", "/box/b", "x", with("x-ms-blob-content-md5", md5Of([]byte("y"))), 400, "Md5Mismatch"},
		{"metadata name", "/box/b", "x", with("x-ms-meta-a-b", "x"), 400, "InvalidMetadata"},
		{"tier", "/box/b", "x", with("x-ms-access-tier", "Warm"), 400, "InvalidHeaderValue"},
		{"tags", "/box/b", "x", with("x-ms-tags", "a=b%26"), 400, "InvalidTag"},
		{"too many tags", "/box/b", "x", with("x-ms-tags", "a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k="), 400, "TagsTooLarge"},
		{"lease of nothing", "/box/b", "x", with("x-ms-lease-id", "6a0d0d3c-0000-4000-8000-000000000000"), 412,
			"LeaseNotPresentWithBlobOperation"},
		{"customer's key", "/box/b", "x", with("x-ms-encryption-key", "abc"), 400, "MissingRequiredHeader"},
		{"encryption scope", "/box/b", "x", with("x-ms-encryption-scope", "abc"), 409, "EncryptionScopeNotAvailable"},
		{"legal hold", "/box/b", "x", with("x-ms-legal-hold", "true"), 409, "ImmutableStorageWithVersioningNotEnabled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", tc.path, tc.content, tc.headers...).want(t, tc.status, tc.code)
		})
	}
	f.do("HEAD", "/box/b", "").want(t, 404, "BlobNotFound")
}

// Sizes are refused before a byte is read.
func TestPutBlobLimits(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, tc := range []struct {
		path, version string
		size          int64
	}{
		{"/box/b", "2021-12-02", 5000<<20 + 1}, {"/box/b", "2016-05-31", 256<<20 + 1}, {"/box/b", "2015-02-21", 64<<20 + 1},
		{"/box/b?comp=block&blockid=YQ==", "2021-12-02", 4000<<20 + 1},
		{"/box/b?comp=block&blockid=YQ==", "2016-05-31", 100<<20 + 1},
		{"/box/b?comp=block&blockid=YQ==", "2015-02-21", 4<<20 + 1}, {"/box/b?comp=appendblock", "2021-12-02", 4<<20 + 1},
		{"/box/b?comp=appendblock", "2022-11-02", 100<<20 + 1},
	} {
		conn, err := net.Dial("tcp", strings.Split(f.base, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		hr := f.request("PUT", tc.path, "", "x-ms-blob-type", "BlockBlob", "x-ms-version", tc.version)
		hr.ContentLength = tc.size
		u, _ := url.Parse(f.base)
		path, query, _ := strings.Cut(tc.path, "?")
		hr.Header.Del("Authorization")
		developer.SharedKey(hr, u.Path+path)
		fmt.Fprintf(conn, "PUT %s%s?%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", u.Path, path, query, tc.size)
		_ = hr.Header.Write(conn)
		_, _ = io.WriteString(conn, "\r\n") // and not a byte of the body
		resp, err := http.ReadResponse(bufio.NewReader(conn), hr)
		if err != nil {
			t.Fatal(err)
		}
		code := "RequestBodyTooLarge"
		if tc.version < "2017-07-29" { // which has no header with it
			code = ""
		}
		if resp.StatusCode != 413 || resp.Header.Get("x-ms-error-code") != code {
			t.Errorf("%s, version %s, %d bytes: %d %s", tc.path, tc.version, tc.size, resp.StatusCode,
				resp.Header.Get("x-ms-error-code"))
		}
		conn.Close()
	}
}

func TestPutBlobNeedsALength(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	hr := f.request("PUT", "/box/b", "", "x-ms-blob-type", "BlockBlob")
	hr.ContentLength = -1
	hr.Body = io.NopCloser(strings.NewReader("x"))
	f.send(hr).want(t, 411, "MissingContentLengthHeader")
}

// The conditional headers, as If-*: what holds, and what does not.
func TestPutBlobConditions(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	there := c.NewBlockBlobClient("there")
	up := must(there.Upload(ctx, body("x"), nil))(t)
	past, future := up.LastModified.Add(-time.Hour), up.LastModified.Add(time.Hour)
	other := azcore.ETag(`"0x8D0000000000000"`)
	any := azcore.ETagAny
	for _, tc := range []struct {
		name   string
		blob   string
		cond   blob.ModifiedAccessConditions
		status int
		code   string
	}{
		{"If-Match holds", "there", blob.ModifiedAccessConditions{IfMatch: up.ETag}, 201, ""},
		{"If-Match fails", "there", blob.ModifiedAccessConditions{IfMatch: &other}, 412, "ConditionNotMet"},
		{"If-Match any, nothing there", "new", blob.ModifiedAccessConditions{IfMatch: &any}, 412, "ConditionNotMet"},
		{"If-None-Match holds", "there", blob.ModifiedAccessConditions{IfNoneMatch: &other}, 201, ""},
		{"If-None-Match any, there", "there", blob.ModifiedAccessConditions{IfNoneMatch: &any}, 409, "BlobAlreadyExists"},
		{"If-None-Match any, nothing there", "new", blob.ModifiedAccessConditions{IfNoneMatch: &any}, 201, ""},
		{"If-Modified-Since holds", "there", blob.ModifiedAccessConditions{IfModifiedSince: &past}, 201, ""},
		{"If-Modified-Since fails", "there", blob.ModifiedAccessConditions{IfModifiedSince: &future}, 412, "ConditionNotMet"},
		{"If-Unmodified-Since holds", "there", blob.ModifiedAccessConditions{IfUnmodifiedSince: &future}, 201, ""},
		{"If-Unmodified-Since fails", "there", blob.ModifiedAccessConditions{IfUnmodifiedSince: &past}, 412,
			"ConditionNotMet"},
		{"x-ms-if-tags holds", "there", blob.ModifiedAccessConditions{IfTags: to.Ptr(`"k" = 'v'`)}, 201, ""},
		{"x-ms-if-tags fails", "there", blob.ModifiedAccessConditions{IfTags: to.Ptr(`"k" = 'w'`)}, 412, "ConditionNotMet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.blob == "there" { // as it was
				up := must(there.Upload(ctx, body("x"), &blockUpload{Tags: map[string]string{"k": "v"}}))(t)
				if tc.name == "If-Match holds" {
					tc.cond.IfMatch = up.ETag
				}
			} else {
				_, _ = c.NewBlobClient(tc.blob).Delete(ctx, nil)
			}
			_, err := c.NewBlockBlobClient(tc.blob).Upload(ctx, body("y"),
				&blockUpload{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &tc.cond}})
			if tc.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantCode(t, err, tc.status, tc.code)
			if tc.blob == "there" && string(download(t, there, nil)) != "x" {
				t.Error("the refused write changed the blob")
			}
		})
	}
}

func TestBlobNames(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/$root?restype=container", "").want(t, 201, "")
	for escaped, name := range map[string]string{
		"a//b": "a//b", "/lead": "/lead", "trail/": "trail/", "dot.": "dot.",
		"sp%20ace":                    "sp ace",
		"%C3%A4%E2%82%AC%F0%9F%98%80": "ä€😀", "per%25cent": "per%cent", "q%3Fm": "q?m", "plus+": "plus+",
		"%2Fslash": "/slash", "a&amp;<b>": "a&amp;<b>",
		strings.Repeat("%F0%9F%98%80", 512): strings.Repeat("😀", 512), "back%5Cslash": `back\slash`,
	} {
		if escaped == "/lead" || escaped == "%2Fslash" {
			continue // one name, see below
		}
		f.do("PUT", "/box/"+strings.NewReplacer("<", "%3C", ">", "%3E").Replace(escaped), name, "x-ms-blob-type",
			"BlockBlob").want(t, 201, "")
		if r := f.do("GET", "/box/"+strings.NewReplacer("<", "%3C", ">", "%3E").Replace(escaped), "").want(t, 200,
			""); r.body != name {
			t.Errorf("%s holds %q", escaped, r.body)
		}
	}
	f.do("PUT", "/box//lead", "lead", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if r := f.do("GET", "/box/%2Flead", "").want(t, 200, ""); r.body != "lead" {
		t.Errorf("an escaped slash names another blob: %q", r.body)
	}
	list := f.do("GET", "/box?restype=container&comp=list", "").want(t, 200, "").body
	for _, want := range []string{"<Name>a//b</Name>", "<Name>/lead</Name>", "<Name>trail/</Name>", "<Name>ä€😀</Name>",
		"<Name>a&amp;amp;&lt;b&gt;</Name>"} {
		if !strings.Contains(list, want) {
			t.Errorf("the listing has no %s", want)
		}
	}
	f.do("PUT", "/inroot", "root", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if r := f.do("GET", "/$root/inroot", "").want(t, 200, ""); r.body != "root" {
		t.Errorf("root blob %q", r.body)
	}
}

func TestPutBlock(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	at := func(id string) string { return "/box/b?comp=block&blockid=" + id }
	r := f.do("PUT", at("YQ=="), "content").want(t, 201, "")
	if r.header.Get("x-ms-content-crc64") != crcOf([]byte("content")) || r.header.Get("Content-MD5") != "" ||
		r.header.Get("x-ms-request-server-encrypted") != "true" {
		t.Errorf("headers %v", r.header)
	}
	r = f.do("PUT", at("YQ=="), "content", "Content-MD5", md5Of([]byte("content"))).want(t, 201, "")
	if r.header.Get("Content-MD5") != md5Of([]byte("content")) {
		t.Errorf("headers %v", r.header)
	}
	r = f.do("PUT", at("YQ=="), "content", "x-ms-version", "2018-11-09").want(t, 201, "")
	if r.header.Get("Content-MD5") == "" || r.header.Get("x-ms-content-crc64") != "" {
		t.Errorf("headers %v", r.header)
	}
	f.do("HEAD", "/box/b", "").want(t, 404, "BlobNotFound")
	for _, tc := range []struct {
		name, path, content string
		headers             []string
		status              int
		code                string
	}{
		{"another length of id", at("YWI="), "x", nil, 400, "InvalidBlobOrBlock"},
		{"no id", "/box/b?comp=block", "x", nil, 400, "MissingRequiredQueryParameter"},
		{"id not base64", at("a"), "x", nil, 400, "InvalidQueryParameterValue"},
		{"id too long", at(base64.URLEncoding.EncodeToString(make([]byte, 66))), "x", nil, 400, "InvalidQueryParameterValue"},
		{"empty", at("YQ=="), "", nil, 400, "InvalidHeaderValue"},
		{"no container", "/none/b?comp=block&blockid=YQ==", "x", nil, 404, "ContainerNotFound"},
		{"wrong MD5", at("YQ=="), "x", []string{"Content-MD5", md5Of(nil)}, 400, "Md5Mismatch"},
		{"wrong CRC64", at("YQ=="), "x", []string{"x-ms-content-crc64", crcOf(nil)}, 400, "Crc64Mismatch"},
		{"lease of nothing", at("YQ=="), "x", []string{"x-ms-lease-id", "6a0d0d3c-0000-4000-8000-000000000000"}, 412,
			"LeaseNotPresentWithBlobOperation"},
	} {
		t.Run(tc.name, func(t *testing.T) { f.do("PUT", tc.path, tc.content, tc.headers...).want(t, tc.status, tc.code) })
	}
	f.do("PUT", "/box/pages", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	f.do("PUT", "/box/pages?comp=block&blockid=YQ==", "x").want(t, 409, "InvalidBlobType")
	f.do("PUT", "/box/pages?comp=blocklist", "<BlockList/>").want(t, 409, "InvalidBlobType")
}

func TestPutBlockList(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	var want []byte
	var ids []string
	for i := range 40 { // more than stand in the blob's record
		content := randomBytes(1000 + i)
		if _, err := b.StageBlock(ctx, blockName(i), streaming.NopCloser(bytes.NewReader(content)), nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, content...)
		ids = append(ids, blockName(i))
	}
	resp := must(b.CommitBlockList(ctx, ids,
		&blockblob.CommitBlockListOptions{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("x/y")},
			Metadata: map[string]*string{"a": to.Ptr("b")}, Tier: to.Ptr(blob.AccessTierCool)}))(t)
	p := must(b.GetProperties(ctx, nil))(t)
	if *p.ContentLength != int64(len(want)) || *p.ContentType != "x/y" || *p.ETag != *resp.ETag || p.ContentMD5 != nil ||
		*p.AccessTier != "Cool" {
		t.Errorf("properties %+v", p)
	}
	if !bytes.Equal(download(t, b, nil), want) {
		t.Error("content differs")
	}
	for _, r := range [][2]int64{{0, 1}, {999, 2}, {1000, 1001}, {20_000, 10_000}, {int64(len(want)) - 1, 1}} {
		got := download(t, b, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: r[0], Count: r[1]}})
		if !bytes.Equal(got, want[r[0]:r[0]+r[1]]) {
			t.Errorf("range %v differs", r)
		}
	}
	created := *p.CreationTime
	f.advance(5 * time.Second)
	// Commit again, reordered: some committed, one new.
	if _, err := b.StageBlock(ctx, blockName(99), body("new"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CommitBlockList(ctx, []string{blockName(3), blockName(99), blockName(3)}, nil); err != nil {
		t.Fatal(err)
	}
	third := want[3003 : 3003+1003]
	if got := download(t, b, nil); string(got) != string(third)+"new"+string(third) {
		t.Errorf("content of %d bytes differs", len(got))
	}
	if p = must(b.GetProperties(ctx, nil))(t); !p.CreationTime.Equal(created) {
		t.Errorf("created %v, then %v", created, p.CreationTime)
	}
	// What is not in the list is gone.
	_, err := b.CommitBlockList(ctx, []string{blockName(5)}, nil)
	wantCode(t, err, 400, "InvalidBlockList")
	if _, err := b.CommitBlockList(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := download(t, b, nil); len(got) != 0 {
		t.Errorf("%d bytes after an empty list", len(got))
	}
}

func TestPutBlockListRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b?comp=block&blockid=YQ==", "x").want(t, 201, "")
	const list = "<BlockList><Uncommitted>YQ==</Uncommitted></BlockList>"
	for _, tc := range []struct {
		name, body string
		headers    []string
		status     int
		code       string
	}{
		{"not XML", "<BlockList>", nil, 400, "InvalidXmlDocument"},
		{"empty", "", nil, 400, "InvalidXmlDocument"},
		{"unknown block", "<BlockList><Latest>Yg==</Latest></BlockList>", nil, 400, "InvalidBlockList"},
		{"not committed", "<BlockList><Committed>YQ==</Committed></BlockList>", nil, 400, "InvalidBlockList"},
		{"If-Match", list, []string{"If-Match", "*"}, 412, "ConditionNotMet"},
		{"If-Match before the list", "<BlockList><Latest>Yg==</Latest></BlockList>", []string{"If-Match", "*"}, 412,
			"ConditionNotMet"},
		{"wrong MD5", list, []string{"Content-MD5", md5Of(nil)}, 400, "Md5Mismatch"},
		{"wrong CRC64", list, []string{"x-ms-content-crc64", crcOf(nil)}, 400, "Crc64Mismatch"},
		{"metadata", list, []string{"x-ms-meta-a-", "x"}, 400, "InvalidMetadata"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", "/box/b?comp=blocklist", tc.body, tc.headers...).want(t, tc.status, tc.code)
		})
	}
	r := f.do("PUT", "/box/b?comp=blocklist", list).want(t, 201, "")
	if r.header.Get("x-ms-content-crc64") != crcOf([]byte(list)) {
		t.Errorf("headers %v", r.header)
	}
	f.do("PUT", "/box/b?comp=blocklist", "<BlockList/>", "If-None-Match", "*").want(t, 409, "BlobAlreadyExists")
}

func TestGetBlockList(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.GetBlockList(ctx, blockblob.BlockListTypeAll, nil)
	wantCode(t, err, 404, "BlobNotFound")
	for i := range 3 {
		if _, err := b.StageBlock(ctx, blockName(i), body(strings.Repeat("x", i+1)), nil); err != nil {
			t.Fatal(err)
		}
	}
	list := must(b.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
	if len(list.CommittedBlocks) != 0 || len(list.UncommittedBlocks) != 3 || list.ETag != nil {
		t.Errorf("before the commit: %+v", list)
	}
	must(b.CommitBlockList(ctx, []string{blockName(2), blockName(0)}, nil))(t)
	must(b.StageBlock(ctx, blockName(7), body("seven"), nil))(t)
	list = must(b.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
	var got []string
	for _, x := range append(list.CommittedBlocks, list.UncommittedBlocks...) {
		got = append(got, fmt.Sprint(*x.Name, *x.Size))
	}
	want := []string{fmt.Sprint(blockName(2), 3), fmt.Sprint(blockName(0), 1), fmt.Sprint(blockName(7), 5)}
	if diff := cmp.Diff(want, got); diff != "" || *list.BlobContentLength != 4 || list.ETag == nil {
		t.Errorf("after it: %s %v", diff, list)
	}
	snap := must(b.CreateSnapshot(ctx, nil))(t)
	must(b.CommitBlockList(ctx, nil, nil))(t)
	list = must(b.GetBlockList(ctx, blockblob.BlockListTypeCommitted,
		&blockblob.GetBlockListOptions{Snapshot: snap.Snapshot}))(t)
	if len(list.CommittedBlocks) != 2 {
		t.Errorf("of the snapshot: %+v", list)
	}
	name := strings.Split(c.URL(), "/")[4]
	f.do("GET", "/"+name+"/b?comp=blocklist&blocklisttype=some", "").want(t, 400, "InvalidQueryParameterValue")
	// as the legacy SDK for Java writes it
	f.do("GET", "/"+name+"/b?comp=blocklist&blocklisttype=COMMITTED", "").want(t, 200, "")
	must(c.NewAppendBlobClient("append").Create(ctx, nil))(t)
	f.do("GET", "/"+name+"/append?comp=blocklist", "").want(t, 409, "InvalidBlobType")
}

// An interrupted upload leaves nothing and does not disturb others.
func TestAbortedUpload(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, path := range []string{"/box/b", "/box/b?comp=block&blockid=YQ=="} {
		for _, sent := range []int{0, 100, 300 << 10} {
			hr := f.request("PUT", path, strings.Repeat("x", 1<<20), "x-ms-blob-type", "BlockBlob")
			hr.Body = io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", sent)), failing{}))
			if resp, err := http.DefaultTransport.RoundTrip(hr); err == nil {
				resp.Body.Close()
				t.Fatalf("answer %d to a broken body", resp.StatusCode)
			}
		}
	}
	f.do("HEAD", "/box/b", "").want(t, 404, "BlobNotFound")
	f.do("GET", "/box/b?comp=blocklist&blocklisttype=all", "").want(t, 404, "BlobNotFound")
	f.do("PUT", "/box/b", "fine", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if r := f.do("GET", "/box/b", ""); r.body != "fine" {
		t.Errorf("content %q", r.body)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAbandonedBlocksExpire(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	old := c.NewBlockBlobClient("old")
	must(old.StageBlock(ctx, blockName(1), body("x"), nil))(t)
	f.advance(6 * 24 * time.Hour)
	name := strings.Split(c.URL(), "/")[4]
	f.do("PUT", "/"+name+"/young?comp=block&blockid=YQ==", "y").want(t, 201, "")
	f.advance(25 * time.Hour)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	f.do("GET", "/"+name+"/old?comp=blocklist&blocklisttype=all", "").want(t, 404, "BlobNotFound")
	f.do("GET", "/"+name+"/young?comp=blocklist&blocklisttype=all", "").want(t, 200, "")
}

// The largest block list, and what it leaves behind.
func TestFiftyThousandBlocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	var list strings.Builder
	list.WriteString("<BlockList>")
	for i := range 100 {
		f.do("PUT", "/box/b?comp=block&blockid="+url.QueryEscape(blockName(i)), fmt.Sprintf("%03d", i)).want(t, 201, "")
	}
	for i := range 50_000 {
		list.WriteString("<Latest>" + blockName(i%100) + "</Latest>")
	}
	begun := time.Now()
	f.do("PUT", "/box/b?comp=blocklist", list.String()+"</BlockList>").want(t, 201, "")
	t.Logf("50,000 blocks were committed in %v", time.Since(begun))
	if r := f.do("GET", "/box/b", "", "x-ms-range", "bytes=149990-149999").want(t, 206, ""); r.body != "6097098099" {
		t.Errorf("the end is %q", r.body)
	}
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); len(r.body) != 150_000 {
		t.Errorf("%d bytes", len(r.body))
	}
	f.do("PUT", "/box/b?comp=blocklist", list.String()+"<Latest>"+blockName(0)+"</Latest></BlockList>").want(t, 400,
		"BlockListTooLong")
	f.do("DELETE", "/box/b", "").want(t, 202, "")
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	a := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t)
	if a.Live != 0 || a.UncommittedBlocks != 0 {
		t.Errorf("left over: %+v", a)
	}
}
