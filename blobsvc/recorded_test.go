package blobsvc_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// The tests of this file are about answers that the reference does not describe and that recorded exchanges with Azure
// show.

// recordedBox starts a service with the container box and the block blob b in it.
func recordedBox(t *testing.T) *fixture {
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	return f
}

// wantHeader fails unless a header of the answer has a value; "" is an absent header.
func (r reply) wantHeader(t *testing.T, name, want string) {
	t.Helper()
	if got := r.header.Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestEncryptionAlgorithmAlone(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	alone := []string{"x-ms-encryption-algorithm", "AES256", "x-ms-blob-type", "BlockBlob"}
	r := f.do("PUT", "/box/alone", "x", alone...).want(t, 201, "")
	r.wantHeader(t, "x-ms-encryption-key-sha256", "")
	r.wantHeader(t, "x-ms-request-server-encrypted", "true")
	f.do("GET", "/box/alone", "", alone...).want(t, 200, "")
	f.do("PUT", "/box/b", "x", "x-ms-encryption-algorithm", "AES128", "x-ms-blob-type", "BlockBlob").want(t, 400,
		"InvalidHeaderValue")
	b := f.service().NewContainerClient("box").NewBlockBlobClient("secret")
	must(b.Upload(ctx, body("x"), &blockUpload{CPKInfo: cpk(1)}))(t)
	f.do("HEAD", "/box/secret", "", alone...).want(t, 409, "BlobUsesCustomerSpecifiedEncryption")
}

// Reads of a snapshot do not name it, except in recordings of the middle of 2019.
func TestSnapshotHeaderOfReads(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	at := f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	for _, method := range []string{"GET", "HEAD"} {
		f.do(method, "/box/b?snapshot="+at, "", "x-ms-version", "2018-11-09").wantHeader(t, "x-ms-snapshot", "")
		f.do(method, "/box/b?snapshot="+at, "", "x-ms-version", "2019-02-02").wantHeader(t, "x-ms-snapshot", "")
	}
}

func TestTierOfSnapshots(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	page := f.do("PUT", "/box/page?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	f.do("HEAD", "/box/page?snapshot="+page, "").want(t, 200, "").wantHeader(t, "x-ms-access-tier", "")
	at := f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	for version, want := range map[string]string{"2018-11-09": "", "2019-02-02": "Hot"} {
		f.do("HEAD", "/box/b?snapshot="+at, "", "x-ms-version", version).want(t, 200, "").wantHeader(t, "x-ms-access-tier",
			want)
		list := f.do("GET", "/box?restype=container&comp=list&include=snapshots&prefix=b", "", "x-ms-version",
			version).want(t, 200, "").body
		tiers := 1 // that of the blob
		if want != "" {
			tiers = 2
		}
		if got := strings.Count(list, "<AccessTier>Hot</AccessTier><AccessTierInferred>true"); got != tiers {
			t.Errorf("version %s lists %d tiers, want %d\n%s", version, got, tiers, list)
		}
	}
	f.do("PUT", "/box/b?comp=tier&snapshot="+at, "", "x-ms-access-tier", "Archive").want(t, 200, "")
	f.do("PUT", "/box/b?comp=tier&snapshot="+at, "", "x-ms-access-tier", "Hot").want(t, 409, "BlobOperationNotSupported")
}

func TestChecksumsOfWrites(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	source := f.base + "/box/b"
	f.do("PUT", "/box/append", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	pages := strings.Repeat("x", 512)
	f.do("PUT", "/box/pages", pages, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	list := `<BlockList></BlockList>`
	md5, crc := md5Of([]byte("x")), crcOf([]byte("x"))
	for _, tc := range []struct {
		name, path, content, version string
		headers                      []string
		md5, crc                     string
	}{
		{"append", "append?comp=appendblock", "", "2021-12-02", []string{"x-ms-copy-source", source}, md5, ""},
		{"put", "c", "", "2021-12-02", []string{"x-ms-copy-source", source, "x-ms-blob-type", "BlockBlob"}, "", crc},
		{"put, MD5 named", "c", "", "2021-12-02",
			[]string{"x-ms-copy-source", source, "x-ms-blob-type", "BlockBlob", "x-ms-source-content-md5", md5}, md5, ""},
		{"block list", "list?comp=blocklist", list, "2021-12-02", nil, "", crcOf([]byte(list))},
		{"block list, MD5 named", "list?comp=blocklist", list, "2021-12-02", []string{"Content-MD5", md5Of([]byte(list))}, "",
			crcOf([]byte(list))},
		{"block list, old", "list?comp=blocklist", list, "2018-11-09", nil, md5Of([]byte(list)), ""},
		{"pages", "page?comp=page", "", "2019-07-07",
			[]string{"x-ms-copy-source", f.base + "/box/pages", "x-ms-page-write", "update", "x-ms-range", "bytes=0-511",
				"x-ms-source-range", "bytes=0-511"},
			md5Of([]byte(pages)), ""},
		{"pages, old", "page?comp=page", "", "2019-02-02",
			[]string{"x-ms-copy-source", f.base + "/box/pages", "x-ms-page-write", "update", "x-ms-range", "bytes=0-511",
				"x-ms-source-range", "bytes=0-511"},
			md5Of([]byte(pages)), ""},
		{"put block blob", "d", "x", "2021-12-02", []string{"x-ms-blob-type", "BlockBlob"}, md5, crc},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := f.do("PUT", "/box/"+tc.path, tc.content, append(tc.headers, "x-ms-version", tc.version)...).want(t, 201, "")
			r.wantHeader(t, "Content-MD5", tc.md5)
			r.wantHeader(t, "x-ms-content-crc64", tc.crc)
		})
	}
	r := f.do("PUT", "/box/c", "", "x-ms-copy-source", source, "x-ms-blob-type", "BlockBlob", "x-ms-source-content-md5",
		md5Of([]byte("y"))).want(t, 400, "Md5Mismatch")
	if !strings.Contains(r.body, "<UserSpecifiedMd5>"+md5Of([]byte("y"))+"</UserSpecifiedMd5><ServerCalculatedMd5>"+md5) {
		t.Error(r.body)
	}
	r = f.do("PUT", "/box/append?comp=appendblock", "", "x-ms-copy-source", source, "x-ms-source-content-md5",
		md5Of([]byte("y"))).want(t, 400, "Md5Mismatch")
	if strings.Contains(r.body, "Md5>") {
		t.Error(r.body)
	}
}

func TestFindBlobsByTagsEchoesItsParameters(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for _, name := range []string{"m", "n"} {
		f.do("PUT", "/box/"+name, "x", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "k=v").want(t, 201, "")
	}
	for _, path := range []string{"/?comp=blobs", "/box?restype=container&comp=blobs"} {
		path += "&maxresults=1&where=" + url.QueryEscape(`"k"='v'`)
		first := f.do("GET", path, "").want(t, 200, "").body
		if !strings.Contains(first, `/"><Where>&quot;k&quot;=&apos;v&apos;</Where><MaxResults>1</MaxResults><Blobs>`) {
			t.Error(first)
		}
		_, marker, _ := strings.Cut(first, "<NextMarker>")
		marker, _, _ = strings.Cut(marker, "<")
		if second := f.do("GET", path+"&marker="+url.QueryEscape(marker), "").want(t, 200, "").body; !strings.Contains(second,
			"<Marker>"+marker+"</Marker><Where>") {
			t.Error(second)
		}
	}
}

func TestContentMD5OfAnyLength(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	c := f.service().NewContainerClient("box")
	sum := []byte{1, 2, 3, 4}
	text := base64.StdEncoding.EncodeToString(sum)
	b := c.NewBlockBlobClient("b")
	must(b.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentMD5: sum}, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); string(p.ContentMD5) != string(sum) {
		t.Errorf("MD5 %x, want %x", p.ContentMD5, sum)
	}
	f.do("PUT", "/box/a", "", "x-ms-blob-type", "AppendBlob", "x-ms-blob-content-md5", text).want(t, 201, "")
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "0", "x-ms-blob-content-md5",
		text).want(t, 201, "")
	for _, name := range []string{"a", "p"} {
		f.do("HEAD", "/box/"+name, "").want(t, 200, "").wantHeader(t, "Content-MD5", text)
	}
	f.do("PUT", "/box/b?comp=properties", "", "x-ms-blob-content-md5", "no base64").want(t, 400, "InvalidMd5")
}

func TestNamesOfHeadersInErrors(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for header, request := range map[string][]string{"x-ms-lease-id": {"x-ms-lease-id", "1"},
		"x-ms-source-if-modified-since": {"x-ms-source-if-modified-since", "1", "x-ms-copy-source", f.base + "/box/b"}} {
		r := f.do("PUT", "/box/c", "", append(request, "x-ms-blob-type", "BlockBlob")...).want(t, 400, "InvalidHeaderValue")
		if !strings.Contains(r.body, "<HeaderName>"+header+"</HeaderName>") {
			t.Error(r.body)
		}
	}
}

func TestRefusedPageWrites(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	clear := []string{"x-ms-page-write", "clear", "x-ms-range", "bytes=0-511"}
	for _, name := range []string{"le", "lt", "eq"} {
		r := f.do("PUT", "/box/p?comp=page", "", append(clear, "x-ms-if-sequence-number-"+name, "-1")...).want(t, 400,
			"InvalidInput")
		if strings.Contains(r.body, "<HeaderName>") {
			t.Error(r.body)
		}
		f.do("PUT", "/box/p?comp=page", "", append(clear, "x-ms-if-sequence-number-"+name, "one")...).want(t, 400,
			"InvalidHeaderValue")
	}
	r := f.do("PUT", "/box/p?comp=page", "", "x-ms-page-write", "clear", "x-ms-range", "bytes=0-512").want(t, 400,
		"InvalidHeaderValue")
	if !strings.Contains(r.body, "<HeaderName>Range</HeaderName><HeaderValue>bytes=0-512</HeaderValue>") {
		t.Error(r.body)
	}
	f.do("PUT", "/box/p?comp=page", "x", "x-ms-page-write", "update", "x-ms-range", "bytes=0-512").want(t, 416,
		"InvalidPageRange")
	f.do("GET", "/box/p?comp=pagelist", "", "x-ms-range", "bytes=-2-497").want(t, 200, "")
}

func TestCopyOfSealedBlob(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/a", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/a?comp=seal", "").want(t, 200, "")
	f.do("PUT", "/box/sealed", "", "x-ms-copy-source", f.base+"/box/a").want(t, 202, "")
	f.do("PUT", "/box/sealed?comp=appendblock", "x").want(t, 409, "BlobIsSealed")
	f.do("PUT", "/box/open", "", "x-ms-copy-source", f.base+"/box/a", "x-ms-seal-blob", "false").want(t, 202, "")
	f.do("PUT", "/box/open?comp=appendblock", "x").want(t, 201, "")
}

func TestBackslashInNames(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	must(f.service().NewContainerClient("box").NewBlockBlobClient(`d\e`).Upload(ctx, body("slash"), nil))(t)
	if r := f.do("GET", "/box/d/e", "").want(t, 200, ""); r.body != "slash" {
		t.Errorf("content %q", r.body)
	}
	if r := f.do("GET", "/box?restype=container&comp=list&prefix=d/", ""); !strings.Contains(r.body, "<Name>d/e</Name>") {
		t.Error(r.body)
	}
}

func TestSoftDeletedHeader(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.keepDeleted(1, "")
	at := f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	f.do("DELETE", "/box/b", "", "x-ms-delete-snapshots", "include").want(t, 202, "")
	for _, query := range []string{"", "?snapshot=" + at} {
		f.do("HEAD", "/box/b"+query, "").want(t, 404, "BlobNotFound").wantHeader(t, "x-ms-is-soft-deleted", "true")
		f.do("HEAD", "/box/b"+query, "", "x-ms-version", "2020-08-04").want(t, 404, "BlobNotFound").wantHeader(t,
			"x-ms-is-soft-deleted", "")
	}
	f.do("HEAD", "/box/none", "").want(t, 404, "BlobNotFound").wantHeader(t, "x-ms-is-soft-deleted", "")
}

func TestDeleteOfNoSnapshots(t *testing.T) {
	t.Parallel()
	b := recordedBox(t).service().NewContainerClient("box").NewBlobClient("b")
	only := &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeOnly)}
	_, err := b.Delete(ctx, only)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.CreateSnapshot(ctx, nil))(t)
	must(b.Delete(ctx, only))(t)
}

// The codes of conditions of copies depend on the version.
func TestConditionsOfCopies(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	const never = `"0x1"`
	long, soon := "Mon, 01 Jan 2001 00:00:00 GMT", f.now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, tc := range []struct {
		operation, condition, value string
		want                        map[string]string // by version
	}{
		{"copy", "If-Match", never, map[string]string{"2019-12-12": "412 TargetConditionNotMet",
			"2021-12-02": "412 TargetConditionNotMet",
			"2023-11-03": "412 TargetConditionNotMet", "2024-08-04": "412 ConditionNotMet",
			"2026-06-06": "412 ConditionNotMet"}},
		{"copy", "x-ms-if-tags", "a = 'b'",
			map[string]string{"2019-12-12": "412 ConditionNotMet", "2021-12-02": "412 ConditionNotMet"}},
		{"copy", "x-ms-source-if-tags", "a = 'b'",
			map[string]string{"2019-12-12": "412 ConditionNotMet", "2021-12-02": "412 ConditionNotMet"}},
		{"copy", "x-ms-source-if-none-match", "*",
			map[string]string{"2021-12-02": "412 SourceConditionNotMet", "2026-06-06": "412 SourceConditionNotMet"}},
		{"copy", "x-ms-source-if-match", never,
			map[string]string{"2021-12-02": "412 SourceConditionNotMet", "2026-06-06": "412 SourceConditionNotMet"}},
		{"put", "If-Match", never, map[string]string{"2020-04-08": "412 ConditionNotMet",
			"2021-12-02": "412 TargetConditionNotMet", "2026-06-06": "412 ConditionNotMet"}},
		{"put", "x-ms-source-if-match", never,
			map[string]string{"2020-04-08": "412 CannotVerifyCopySource", "2020-10-02": "412 SourceConditionNotMet",
				"2021-12-02": "412 SourceConditionNotMet", "2026-06-06": "412 SourceConditionNotMet"}},
		{"put", "x-ms-source-if-none-match", "*",
			map[string]string{"2020-04-08": "304 CannotVerifyCopySource", "2021-12-02": "412 SourceConditionNotMet",
				"2023-11-03": "304 CannotVerifyCopySource", "2026-06-06": "304 CannotVerifyCopySource"}},
		{"put", "x-ms-source-if-modified-since", soon,
			map[string]string{"2021-08-06": "304 CannotVerifyCopySource", "2026-06-06": "304 CannotVerifyCopySource"}},
		{"put", "x-ms-source-if-unmodified-since", long,
			map[string]string{"2021-08-06": "412 CannotVerifyCopySource", "2026-06-06": "412 CannotVerifyCopySource"}},
		{"put", "If-Unmodified-Since", long,
			map[string]string{"2021-08-06": "412 ConditionNotMet", "2026-06-06": "412 ConditionNotMet"}},
	} {
		for version, want := range tc.want {
			headers := []string{"x-ms-version", version, "x-ms-copy-source", f.base + "/box/b", tc.condition, tc.value}
			if tc.operation == "put" {
				headers = append(headers, "x-ms-blob-type", "BlockBlob")
			}
			r := f.do("PUT", "/box/b", "", headers...)
			if got := fmt.Sprint(r.status, " ", r.code()); got != want {
				t.Errorf("%s with %s at %s: %s, want %s", tc.operation, tc.condition, version, got, want)
			}
		}
	}
}

func TestEncryptedHeaderOfSnapshot(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").wantHeader(t, "x-ms-request-server-encrypted", "false")
	f.do("PUT", "/box/b?comp=snapshot", "", "x-ms-meta-a", "1").want(t, 201, "").wantHeader(t,
		"x-ms-request-server-encrypted", "true")
}

func TestRehydratePriority(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	b := f.service().NewContainerClient("box").NewBlobClient("b")
	shows := func(want string) {
		t.Helper()
		if p := must(b.GetProperties(ctx, nil))(t); p.RehydratePriority == nil || *p.RehydratePriority != want {
			t.Errorf("priority %v, want %s", p.RehydratePriority, want)
		}
		if list := f.do("GET", "/box?restype=container&comp=list", "").body; !strings.Contains(list,
			"<RehydratePriority>"+want+"</RehydratePriority>") {
			t.Error(list)
		}
	}
	must(b.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	must(b.SetTier(ctx, blob.AccessTierHot, nil))(t)
	shows("Standard")
	must(b.SetTier(ctx, blob.AccessTierHot, &blob.SetTierOptions{RehydratePriority: to.Ptr(blob.RehydratePriorityHigh)}))(
		t)
	shows("High")
	f.reopen()
	f.do("HEAD", "/box/b", "").want(t, 200, "").wantHeader(t, "x-ms-rehydrate-priority", "High")
	f.do("HEAD", "/box/b", "", "x-ms-version", "2019-07-07").want(t, 200, "").wantHeader(t, "x-ms-rehydrate-priority", "")
	f.advance(2 * time.Minute)
	f.do("HEAD", "/box/b", "").want(t, 200, "").wantHeader(t, "x-ms-rehydrate-priority", "")
}

func TestMalformedSnapshot(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for _, request := range []string{"GET", "HEAD", "PUT"} {
		query := "?snapshot=1"
		if request == "PUT" {
			query += "&comp=snapshot"
		}
		r := f.do(request, "/box/b"+query, "").want(t, 400, "") // without an error code
		r.wantHeader(t, "x-ms-version", "")
		if r.header.Get("x-ms-request-id") == "" {
			t.Error("no request ID")
		}
		const details = "<QueryParameterName>snapshot</QueryParameterName><QueryParameterValue>1</QueryParameterValue>"
		if request != "HEAD" && (!strings.Contains(r.body, "<Code>InvalidQueryParameterValue</Code>") ||
			!strings.Contains(r.body, details)) {
			t.Error(r.body)
		}
	}
	f.do("PUT", "/box/b?comp=snapshot&snapshot=2021-01-01T00:00:00.0000000Z", "").want(t, 400,
		"InvalidQueryParameterValue")
}

func TestConditionsOfTags(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	etag := f.do("HEAD", "/box/b", "").header.Get("ETag")
	past, future := f.now().Add(-time.Hour).Format(http.TimeFormat), f.now().Add(time.Hour).Format(http.TimeFormat)
	tags := func(key string) string {
		return "<Tags><TagSet><Tag><Key>" + key + "</Key><Value>v</Value></Tag></TagSet></Tags>"
	}
	for _, tc := range [][3]string{{"match", etag, `"0x1"`}, {"none-match", `"0x1"`, etag},
		{"modified-since", past, future}, {"unmodified-since", future, past}} {
		header := "x-ms-blob-if-" + tc[0]
		f.do("PUT", "/box/b?comp=tags", tags("new"), header, tc[2]).want(t, 412, "ConditionNotMet")
		f.do("GET", "/box/b?comp=tags", "", header, tc[2]).want(t, 412, "ConditionNotMet")
		f.do("PUT", "/box/b?comp=tags", tags("k"), header, tc[1]).want(t, 204, "")
		if r := f.do("GET", "/box/b?comp=tags", "", header, tc[1]).want(t, 200, ""); !strings.Contains(r.body,
			"<Key>k</Key>") {
			t.Error(r.body)
		}
		f.do("PUT", "/box/b?comp=tags", tags("k"), "x-ms-blob-if-modified-since", "yesterday").want(t, 400,
			"InvalidHeaderValue")
	}
}

func TestDeleteByTimeOfTier(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.advance(time.Hour)
	f.do("PUT", "/box/b?comp=tier", "", "x-ms-access-tier", "Cool").want(t, 200, "")
	before, after := f.now().Add(-time.Minute).Format(http.TimeFormat), f.now().Add(time.Minute).Format(http.TimeFormat)
	f.do("DELETE", "/box/b", "", "x-ms-access-tier-if-modified-since", after).want(t, 412,
		"AccessTierChangeTimeConditionNotMet")
	f.do("DELETE", "/box/b", "", "x-ms-access-tier-if-unmodified-since", before).want(t, 412,
		"AccessTierChangeTimeConditionNotMet")
	f.do("DELETE", "/box/b", "", "x-ms-access-tier-if-unmodified-since", "now").want(t, 400, "InvalidHeaderValue")
	f.do("DELETE", "/box/b", "", "x-ms-access-tier-if-modified-since", before, "x-ms-access-tier-if-unmodified-since",
		after).want(t, 202, "")
}

func TestTagQueryLimits(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	keys := func(n int) string {
		var terms []string
		for i := range n {
			terms = append(terms, fmt.Sprintf(`"k%d"='v'`, i))
		}
		return strings.Join(terms, " AND ")
	}
	long, value := strings.Repeat("k", 128), strings.Repeat("v", 256)
	for query, valid := range map[string]bool{keys(10): true, keys(11): false, `"` + long + `"='` + value + `'`: true,
		`"k` + long + `"='v'`:  false,
		`"k"='v` + value + `'`: false, `"k!"='v'`: false, `"k"='v!'`: false, `""='v'`: false} {
		status, condition, code := 400, 400, "InvalidQueryParameterValue"
		header := "InvalidHeaderValue"
		if valid {
			status, condition, code, header = 200, 412, "", "ConditionNotMet"
		}
		r := f.do("GET", "/?comp=blobs&where="+url.QueryEscape(query), "").want(t, status, code)
		if !valid && (!strings.Contains(r.body, "<Message>Error parsing query") ||
			!strings.Contains(r.body, "<Reason>This query parameter value is invalid.</Reason>")) {
			t.Errorf("%.40s: %s", query, r.body)
		}
		f.do("GET", "/box/b", "", "x-ms-if-tags", query).want(t, condition, header)
	}
	f.do("GET", "/box/b", "", "x-ms-if-tags", `@container='box'`).want(t, 400, "InvalidHeaderValue")
	f.do("GET", "/?comp=blobs&where="+url.QueryEscape(`@container='box' AND `+keys(10)), "").want(t, 200, "")
	r := f.do("GET", "/box?restype=container&comp=blobs&where="+url.QueryEscape(`@container='box'`), "").want(t, 400,
		"InvalidQueryParameterValue")
	if !strings.Contains(r.body, "<Message>Error parsing query: Cannot have container in both uri and query\n") {
		t.Error(r.body)
	}
}

func TestPutBlockListModifiedSince(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	future := f.now().Add(time.Hour).Format(http.TimeFormat)
	f.do("PUT", "/box/new?comp=block&blockid=YQ%3D%3D", "x").want(t, 201, "")
	list := "<BlockList><Latest>YQ==</Latest></BlockList>"
	f.do("PUT", "/box/new?comp=blocklist", list, "If-Modified-Since", future).want(t, 412, "ConditionNotMet")
	f.do("PUT", "/box/new?comp=blocklist", list, "If-Modified-Since",
		f.now().Add(-time.Hour).Format(http.TimeFormat)).want(t, 201, "")
}

func TestPageRangesByURLHaveAMarker(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	at := f.do("PUT", "/box/p?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	const marker = "<NextMarker />"
	if r := f.do("GET", "/box/p?comp=pagelist", "", "x-ms-previous-snapshot-url", f.base+"/box/p?snapshot="+at).want(t,
		200, ""); !strings.Contains(r.body, marker) {
		t.Error(r.body)
	}
	if r := f.do("GET", "/box/p?comp=pagelist&prevsnapshot="+at, "").want(t, 200, ""); strings.Contains(r.body, marker) {
		t.Error(r.body)
	}
}

func TestLeaseOfDeletedContainer(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{ContainerDays: 1})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("DELETE", "/box?restype=container", "").want(t, 202, "")
	for _, want := range []string{"<LeaseStatus>locked</LeaseStatus><LeaseState>leased</LeaseState><LeaseDuration>fixed</LeaseDuration><",
		"<LeaseStatus>unlocked</LeaseStatus><LeaseState>expired</LeaseState><Has"} {
		r := f.do("GET", "/?comp=list&include=deleted", "").want(t, 200, "")
		if !strings.Contains(r.body, want) || !strings.Contains(r.body, "</Name><Deleted>true</Deleted><Version>") {
			t.Error(r.body)
		}
		f.advance(31 * time.Second)
	}
}

func TestDeleteOfUncommittedBlocks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		settings accountprops.Blob
		days     int
		want     int
	}{
		{"versions and soft delete", accountprops.Blob{Versioning: true}, 1, 202},
		{"versions", accountprops.Blob{Versioning: true}, 0, 404}, {"soft delete", accountprops.Blob{}, 1, 404},
	} {
		f := managed(t, tc.settings)
		f.do("PUT", "/box?restype=container", "").want(t, 201, "")
		if tc.days > 0 {
			f.keepDeleted(tc.days, "")
		}
		f.do("DELETE", "/box/b", "").want(t, 404, "BlobNotFound")
		f.do("PUT", "/box/b?comp=block&blockid=AAAA", "x").want(t, 201, "")
		r := f.do("DELETE", "/box/b", "")
		if r.status != tc.want {
			t.Fatalf("%s: %d, want %d", tc.name, r.status, tc.want)
		}
		if tc.want == 202 {
			r.wantHeader(t, "x-ms-delete-type-permanent", "false")
			f.do("DELETE", "/box/b", "").want(t, 404, "BlobNotFound")
			f.do("GET", "/box/b?comp=blocklist", "").want(t, 404, "BlobNotFound")
		}
	}
}

// Blobs in an encryption scope, and with a customer's key.
func TestRecordedEncryption(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Scopes: []string{"one", "two"}})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	const scope, key = "x-ms-encryption-scope", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	withKey := []string{"x-ms-encryption-key", key, "x-ms-encryption-key-sha256", "", "x-ms-encryption-algorithm",
		"AES256"}
	sum := sha256.Sum256([]byte("0123456789abcdef0123456789abcdef"))
	withKey[3] = base64.StdEncoding.EncodeToString(sum[:])
	pages := strings.Repeat("x", 512)
	for name, headers := range map[string][]string{"plain": nil, "scoped": {scope, "one"}, "keyed": withKey} {
		f.do("PUT", "/box/"+name, "", append(headers, "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512",
			"x-ms-meta-Secret", "hidden")...).want(t, 201, "")
		md5, crc := "", crcOf([]byte(pages))
		if name == "scoped" {
			md5, crc = md5Of([]byte(pages)), ""
		}
		r := f.do("PUT", "/box/"+name+"?comp=page", pages,
			append(headers, "x-ms-page-write", "update", "x-ms-range", "bytes=0-511")...).want(t, 201, "")
		r.wantHeader(t, "Content-MD5", md5)
		r.wantHeader(t, "x-ms-content-crc64", crc)
	}
	list := f.do("GET", "/box?restype=container&comp=list&include=metadata", "").want(t, 200, "").body
	if strings.Count(list, "<Secret>hidden</Secret>") != 2 || strings.Count(list, `<Metadata Encrypted="true" />`) != 1 {
		t.Error(list)
	}
	f.do("PUT", "/box/scoped?comp=snapshot", "", scope, "none").want(t, 409, "EncryptionScopeNotAvailable")
	f.do("PUT", "/box/scoped?comp=snapshot", "", scope, "two").want(t, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	f.do("GET", "/box/scoped", "", withKey...).want(t, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	f.do("GET", "/box/plain", "", withKey...).want(t, 409, "BlobDoesNotUseCustomerSpecifiedEncryption")
	f.do("PUT", "/box/b?comp=block&blockid=AAAA", "x", scope, "one").want(t, 201, "")
	f.do("PUT", "/box/b?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>").want(t, 409,
		"BlobUsesCustomerSpecifiedEncryption")
	f.do("PUT", "/box/b?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>", scope, "two").want(t, 409,
		"BlobCustomerSpecifiedEncryptionMismatch")
	f.do("PUT", "/box/b?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>", scope, "one").want(t, 201, "")
}

// A full page of a listing with versions and deleted blobs has a marker, whether more follows or not.
func TestListOfVersionsHasAMarker(t *testing.T) {
	t.Parallel()
	f := managed(t, accountprops.Blob{Versioning: true})
	f.keepDeleted(1, "")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for include, want := range map[string]bool{"versions": false, "deleted": false, "deleted,versions": true} {
		r := f.do("GET", "/box?restype=container&comp=list&maxresults=1&include="+include, "").want(t, 200, "")
		_, marker, _ := strings.Cut(r.body, "<NextMarker>")
		marker, _, marked := strings.Cut(marker, "</NextMarker>")
		if marked != want {
			t.Errorf("%s: %s", include, r.body)
		}
		if !marked {
			continue
		}
		r = f.do("GET", "/box?restype=container&comp=list&maxresults=1&include="+include+"&marker="+url.QueryEscape(marker),
			"").want(t, 200, "")
		if strings.Contains(r.body, "<Blob>") || !strings.Contains(r.body, "<NextMarker />") {
			t.Error(r.body)
		}
	}
}

func TestPageRangesWithALimitHaveAMarker(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "2048").want(t, 201, "")
	for _, want := range []string{"<PageList><NextMarker /></PageList>", "</PageRange><NextMarker /></PageList>"} {
		if r := f.do("GET", "/box/p?comp=pagelist&maxresults=5", "").want(t, 200, ""); !strings.Contains(r.body, want) {
			t.Errorf("%s, want %s", r.body, want)
		}
		f.do("PUT", "/box/p?comp=page", strings.Repeat("x", 512), "x-ms-page-write", "update", "x-ms-range",
			"bytes=0-511").want(t, 201, "")
	}
}

func TestGUIDsOfRequests(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	const id = "d92e6954-3274-4715-811c-727ca7145303"
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
		"x-ms-proposed-lease-id", id).want(t, 201, "")
	for text, want := range map[string]int{id: 200, "{" + id + "}": 200, strings.ReplaceAll(id, "-", ""): 200,
		"'" + id + "'": 400, "{" + id + "'": 400, "x" + id + "x": 400} {
		if r := f.do("HEAD", "/box/b", "", "x-ms-lease-id", text); r.status != want {
			t.Errorf("%s: %d, want %d", text, r.status, want)
		}
	}
	r := f.do("PUT", "/box/b?comp=copy&copyid='"+id+"'", "", "x-ms-copy-action", "abort", "x-ms-lease-id", id).want(t, 400,
		"InvalidQueryParameterValue")
	if !strings.Contains(r.body, "<Reason>copyid needs to be valid Guid.</Reason>") {
		t.Error(r.body)
	}
}

func TestSyncCopySaysThatItIsEncrypted(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for version, want := range map[string]string{"2019-12-12": "", "2021-12-02": "true"} {
		f.do("PUT", "/box/c", "", "x-ms-copy-source", f.base+"/box/b", "x-ms-requires-sync", "true", "x-ms-version",
			version).want(t, 202, "").
			wantHeader(t, "x-ms-request-server-encrypted", want)
	}
}

func TestPlaceOfInvalidXML(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	id := "<SignedIdentifier><Id>%d</Id></SignedIdentifier>"
	six := "<SignedIdentifiers>"
	for i := range 6 {
		six += fmt.Sprintf(id, i)
	}
	r := f.do("PUT", "/box?restype=container&comp=acl", six+"</SignedIdentifiers>").want(t, 400, "InvalidXmlDocument")
	if !strings.Contains(r.body, "<LineNumber>0</LineNumber><LinePosition>0</LinePosition><Reason />") {
		t.Error(r.body)
	}
	r = f.do("PUT", "/?restype=service&comp=properties",
		"<StorageServiceProperties><DeleteRetentionPolicy /></StorageServiceProperties>").want(t, 400, "InvalidXmlDocument")
	if !strings.Contains(r.body, "<LinePosition>54</LinePosition><Reason>Element is missing: Enabled.</Reason>") {
		t.Error(r.body)
	}
}

// An anonymous request without a version gets the headers of 2009-09-19.
func TestAnonymousAnswerWithoutVersion(t *testing.T) {
	t.Parallel()
	f := recordedBox(t) // whose blobs are public
	for _, tc := range []struct {
		name   string
		r      reply
		quoted bool
	}{
		{"no version", f.anonymous("GET", "/box/b", "x-ms-version", ""), false},
		{"a version", f.anonymous("GET", "/box/b"), true},
		{"an old version", f.do("GET", "/box/b", "", "x-ms-version", "2009-09-19"), false},
	} {
		h := tc.r.want(t, 200, "").header
		if strings.HasPrefix(h.Get("ETag"), `"`) != tc.quoted || (h.Get("Accept-Ranges") != "") != tc.quoted ||
			(h.Get("x-ms-lease-state") != "") != tc.quoted ||
			h.Get("x-ms-lease-status") != "unlocked" {
			t.Errorf("%s: %v", tc.name, h)
		}
	}
	f.do("PUT", "/?restype=service&comp=properties",
		"<StorageServiceProperties><DefaultServiceVersion>2021-12-02</DefaultServiceVersion></StorageServiceProperties>").want(t, 202, "")
	f.anonymous("GET", "/box/b", "x-ms-version", "").want(t, 200, "").wantHeader(t, "Accept-Ranges", "bytes")
}

// x-ms-blob-content-md5 takes precedence over Content-MD5 in Put Blob.
func TestPrecedenceOfMD5(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	right, wrong := md5Of([]byte("x")), md5Of([]byte("y"))
	for _, tc := range []struct{ transport, blob, want string }{
		{wrong, "", "Md5Mismatch"}, {wrong, right, ""}, {right, wrong, "Md5Mismatch"}, {right, right, ""},
		{"", wrong, "Md5Mismatch"},
	} {
		headers := []string{"x-ms-blob-type", "BlockBlob"}
		if tc.transport != "" {
			headers = append(headers, "Content-MD5", tc.transport)
		}
		if tc.blob != "" {
			headers = append(headers, "x-ms-blob-content-md5", tc.blob)
		}
		if r := f.do("PUT", "/box/c", "x", headers...); r.code() != tc.want {
			t.Errorf("%+v: %s", tc, r.code())
		}
	}
	f.do("PUT", "/box/a", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/a?comp=appendblock", "x", "Content-MD5", wrong, "x-ms-blob-content-md5", right).want(t, 400,
		"Md5Mismatch")
}

// A backslash in the name of a blob is a slash, for signatures as well: the SDK for Go signs it so.
func TestSignatureOfNameWithBackslash(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/a/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for _, name := range []string{"a/b", `a\b`} {
		token := must(sas.BlobSignatureValues{ContainerName: "box", BlobName: name, Permissions: "r",
			ExpiryTime: f.now().Add(time.Hour)}.SignWithSharedKey(credential(t)))(t)
		for _, path := range []string{"/box/a/b", "/box/a%5Cb"} {
			if r := f.anonymous("GET", path+"?"+token.Encode()); r.status != 200 {
				t.Errorf("%s with a signature for %s: %d", path, name, r.status)
			}
		}
	}
}
