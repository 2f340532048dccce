package blobsvc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

func TestBlobBatch(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	name := strings.Split(c.URL(), "/")[4]
	for i := range 4 {
		must(c.NewBlockBlobClient(fmt.Sprint("b", i)).Upload(ctx, body("x"), nil))(t)
	}
	must(c.NewBlobClient("b1").CreateSnapshot(ctx, nil))(t)

	batch := must(c.NewBatchBuilder())(t)
	for _, b := range []string{"b0", "b1", "none", "b2"} {
		if err := batch.Delete(b, nil); err != nil {
			t.Fatal(err)
		}
	}
	resp := must(c.SubmitBatch(ctx, batch, nil))(t)
	var got []string
	for _, r := range resp.Responses {
		text := "ok"
		if r.Error != nil {
			text = strings.Split(strings.SplitN(r.Error.Error(), "ERROR CODE: ", 2)[1], "\n")[0]
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"ok", "SnapshotsPresent", "BlobNotFound", "ok"}, got); diff != "" {
		t.Error(diff)
	}
	// Of the account, with tiers.
	all := must(f.service().NewBatchBuilder())(t)
	for _, b := range []string{"b1", "b3"} {
		if err := all.SetTier(name, b, blob.AccessTierCool, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range must(f.service().SubmitBatch(ctx, all, nil))(t).Responses {
		if r.Error != nil {
			t.Error(r.Error)
		}
	}
	if p := must(c.NewBlobClient("b3").GetProperties(ctx, nil))(t); *p.AccessTier != "Cool" {
		t.Errorf("tier %s", *p.AccessTier)
	}

}

// With product-style URLs disabled, a batch and its parts are of the account in the path, whatever the Host header
// names.
func TestBlobBatchInPathStyle(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{}, otherAccount(t))
		c.Options.PathStyle = true
	})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	date := f.now().UTC().Format(http.TimeFormat)
	part := f.request("DELETE", "/box/b", "", "x-ms-date", date)
	body := "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /devstoreaccount1/box/b " +
		"HTTP/1.1\r\nx-ms-date: " + date +
		"\r\nx-ms-version: 2021-12-02\r\nAuthorization: " + part.Header.Get("Authorization") + "\r\n\r\n--b--\r\n"
	hr := f.request("POST", "/?comp=batch", body, "Content-Type", "multipart/mixed; boundary=b")
	hr.Host, hr.URL.Opaque, hr.URL.Path = "other.blob.localhost", "", "/devstoreaccount1/"
	if r := f.send(hr).want(t, 202, ""); !strings.Contains(r.body, "202 Accepted") {
		t.Error(r.body)
	}
	f.do("GET", "/box/b", "").want(t, 404, "BlobNotFound")
}

// Batches as clients send them: to the account with restype=container, and with boundaries that have characters for
// quotes only.
func TestBlobBatchDialects(t *testing.T) {
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, tc := range []struct{ name, path, boundary string }{
		{"to the account with restype", "?comp=batch&restype=container", "b"},
		{"a boundary of the client for Python", "/?comp=batch", "===============1114621032=="},
		{"a boundary in base64", "/?comp=batch", "ab/cd+ef=="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
			date := f.now().UTC().Format(http.TimeFormat)
			part := f.request("DELETE", "/box/b", "", "x-ms-date", date)
			body := "--" + tc.boundary + "\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE " +
				"/devstoreaccount1/box/b HTTP/1.1\r\nx-ms-date: " + date +
				"\r\nx-ms-version: 2021-12-02\r\nAuthorization: " + part.Header.Get("Authorization") + "\r\n\r\n--" + tc.boundary +
				"--\r\n"
			if r := f.do("POST", tc.path, body, "Content-Type", "multipart/mixed; boundary="+tc.boundary).want(t, 202,
				""); !strings.Contains(r.body, "202 Accepted") {
				t.Error(r.body)
			}
		})
	}
}

// Values that clients write in other case than the reference.
// A batch needs no resource type of an account's signature for itself: its requests are checked.
func TestBlobBatchBySignature(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, tc := range []struct{ types, permissions, path, part string }{
		{"o", "d", "/?comp=batch", "202 Accepted"}, {"o", "x", "/?comp=batch", "403 This request is not authorized"},
		{"sc", "d", "/?comp=batch", "403 This request is not authorized"},
		{"o", "d", "/box?restype=container&comp=batch", "202 Accepted"}, {"o", "r", "/?comp=batch", ""},
	} {
		f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		q := must(sas.AccountSignatureValues{ResourceTypes: tc.types, Permissions: tc.permissions,
			ExpiryTime: f.now().Add(time.Hour)}.SignWithSharedKey(credential(t)))(t)
		token := q.Encode()
		content := "--b\r\nContent-Type: application/http\r\n\r\nDELETE /" + auth.DevelopmentAccount + "/box/b?" + token +
			" HTTP/1.1\r\n\r\n--b--\r\n"
		hr := f.request("POST", tc.path+"&"+token, content, "Content-Type", "multipart/mixed; boundary=b")
		hr.Header.Del("Authorization")
		r := f.send(hr)
		if tc.part == "" {
			r.want(t, 403, "AuthorizationPermissionMismatch")
		} else if r.status != 202 || !strings.Contains(r.body, "HTTP/1.1 "+tc.part) {
			t.Errorf("%+v: %d %s", tc, r.status, r.body)
		}
	}
}

func TestParametersInAnyCase(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for _, kind := range []string{"COMMITTED", "Uncommitted", "aLL"} {
		f.do("GET", "/box/b?comp=blocklist&blocklisttype="+kind, "").want(t, 200, "")
	}
	at := f.do("PUT", "/box/b?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	f.do("DELETE", "/box/b?deletetype=Permanent&snapshot="+at, "").want(t, 409, "PermanentDeleteIsOff")
	f.do("DELETE", "/box/b?deletetype=forever&snapshot="+at, "").want(t, 400, "InvalidQueryParameterValue")
}

func TestBlobBatchRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	part := func(request string) string {
		return "--x\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n" + request + "\r\n\r\n"
	}
	del := part("DELETE /devstoreaccount1/box/b HTTP/1.1")
	const mixed = "multipart/mixed; boundary=x"
	for _, tc := range []struct{ name, path, kind, body, code string }{
		{"no multipart", "/?comp=batch", "text/plain", del + "--x--", "InvalidHeaderValue"},
		{"no boundary", "/?comp=batch", "multipart/mixed", del + "--x--", "InvalidHeaderValue"},
		{"empty", "/?comp=batch", mixed, "", "InvalidInput"},
		{"no parts", "/?comp=batch", mixed, "--x--", "InvalidInput"},
		{"cut off", "/?comp=batch", mixed, del, "InvalidInput"},
		{"no request", "/?comp=batch", mixed, part("nonsense") + "--x--", "InvalidInput"},
		{"another operation", "/?comp=batch", mixed, part("GET /devstoreaccount1/box/b HTTP/1.1") + "--x--", "InvalidInput"},
		{"a batch within", "/?comp=batch", mixed, part("POST /devstoreaccount1/?comp=batch HTTP/1.1") + "--x--",
			"InvalidInput"},
		{"another container", "/other?restype=container&comp=batch", mixed, del + "--x--", "InvalidInput"},
		{"another account", "/?comp=batch", mixed, part("DELETE /another/box/b HTTP/1.1") + "--x--", "InvalidInput"},
	} {
		t.Run(tc.name, func(t *testing.T) { f.do("POST", tc.path, tc.body, "Content-Type", tc.kind).want(t, 400, tc.code) })
	}
	// One request too many is answered by one part that is of none.
	many := f.do("POST", "/?comp=batch", strings.Repeat(del, 257)+"--x--", "Content-Type", mixed).want(t, 202, "")
	if strings.Count(many.body, "HTTP/1.1") != 1 || strings.Contains(many.body, "Content-ID") ||
		!strings.Contains(many.body, "HTTP/1.1 400 The batch operation exceeds maximum number of allowed subrequests.\r\n") ||
		!strings.Contains(many.body, "<Code>ExceedsMaxBatchRequestCount</Code>") {
		t.Error(many.body)
	}
	// So are two operations in one batch, whatever their order.
	tier := part("PUT /devstoreaccount1/box/b?comp=tier HTTP/1.1")
	for _, body := range []string{del + tier, tier + del, del + del + tier} {
		r := f.do("POST", "/box?restype=container&comp=batch", body+"--x--", "Content-Type", mixed).want(t, 202, "")
		if strings.Count(r.body, "HTTP/1.1") != 1 || strings.Contains(r.body, "Content-ID") ||
			!strings.Contains(r.body, "HTTP/1.1 400 All batch subrequests should be the same api.\r\n") ||
			!strings.Contains(r.body, "<Code>AllBatchSubRequestsShouldBeSameApi</Code>") {
			t.Error(r.body)
		}
	}
	// A request without a credential of its own is refused in its part.
	r := f.do("POST", "/?comp=batch", del+"--x--", "Content-Type", mixed).want(t, 202, "")
	if !strings.Contains(r.body, "HTTP/1.1 401") {
		t.Error(r.body)
	}
	f.do("GET", "/box/b", "").want(t, 200, "")
}

func TestFindBlobsByTags(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, box := range []string{"one", "two"} {
		f.do("PUT", "/"+box+"?restype=container", "").want(t, 201, "")
		for i := range 5 {
			f.do("PUT", fmt.Sprintf("/%s/b%d", box, i), "x", "x-ms-blob-type", "BlockBlob", "x-ms-tags",
				fmt.Sprintf("n=%d&of=%s", i, box)).want(t, 201, "")
		}
		f.do("PUT", "/"+box+"/plain", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	}
	find := func(where string) (got []string) {
		marker := ""
		for {
			r := must(f.service().FilterBlobs(ctx, where,
				&service.FilterBlobsOptions{MaxResults: to.Ptr(int32(2)), Marker: &marker}))(t)
			for _, b := range r.Blobs {
				got = append(got, *b.ContainerName+"/"+*b.Name)
			}
			if r.NextMarker == nil || *r.NextMarker == "" {
				return got
			}
			marker = *r.NextMarker
		}
	}
	for where, want := range map[string][]string{
		`"n" > '2'`:                             {"one/b3", "one/b4", "two/b3", "two/b4"},
		`"n" >= '1' AND "n" < '3' AND of='two'`: {"two/b1", "two/b2"},
		`@container='one' AND n<='1'`:           {"one/b0", "one/b1"},
		`"m" = '1'`:                             nil,
	} {
		if diff := cmp.Diff(want, find(where)); diff != "" {
			t.Errorf("%s: %s", where, diff)
		}
	}
	f.do("DELETE", "/one/b3", "").want(t, 202, "")
	f.do("PUT", "/two/b4", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if diff := cmp.Diff([]string{"one/b4", "two/b3"}, find(`n>'2'`)); diff != "" {
		t.Error(diff)
	}
	for query, code := range map[string]string{"": "MissingRequiredQueryParameter",
		"&where=n": "InvalidQueryParameterValue",
		"&where=" + url.PathEscape("a='1' OR b='2'"):      "InvalidQueryParameterValue",
		"&where=" + url.PathEscape("a='1'") + "&marker=x": "InvalidQueryParameterValue"} {
		f.do("GET", "/?comp=blobs"+query, "").want(t, 400, code)
	}
}

func TestFindBlobsByTagsInContainer(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, box := range []string{"one", "two"} {
		f.do("PUT", "/"+box+"?restype=container", "").want(t, 201, "")
		f.do("PUT", "/"+box+"/b", "x", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "k=v&of="+box).want(t, 201, "")
	}
	c := f.service().NewContainerClient("two")
	r := must(c.FilterBlobs(ctx, "k='v'", nil))(t)
	if len(r.Blobs) != 1 || *r.Blobs[0].ContainerName != "two" || len(r.Blobs[0].Tags.BlobTagSet) != 1 ||
		*r.Where != "k='v'" {
		t.Errorf("%+v", r.Blobs)
	}
	_, err := f.service().NewContainerClient("none").FilterBlobs(ctx, "k='v'", nil)
	wantCode(t, err, 404, "ContainerNotFound")
}
