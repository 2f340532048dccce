package blobsvc_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The walk over the error codes of the REST reference, operation by operation: wrong inputs and what the service
// answers. https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes

// A page blob that was written as a whole has no differences to a snapshot of before that.
// https://learn.microsoft.com/rest/api/storageservices/get-page-ranges#remarks
func TestRangesSinceOverwrite(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	create := []string{"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024"}
	snapshot := func() string {
		return f.do("PUT", "/box/p?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	}
	diff := func(previous, more string) reply {
		return f.do("GET", "/box/p?comp=pagelist&prevsnapshot="+previous+more, "")
	}
	f.do("PUT", "/box/p", "", create...).want(t, 201, "")
	first := snapshot()
	f.do("PUT", "/box/p?comp=page", strings.Repeat("x", 512), "x-ms-page-write", "update", "x-ms-range",
		"bytes=0-511").want(t, 201, "")
	second := snapshot()
	diff(first, "").want(t, 200, "")

	f.do("PUT", "/box/p", "", create...).want(t, 201, "")
	third := snapshot()
	f.do("PUT", "/box/p?comp=metadata", "", "x-ms-meta-a", "b").want(t, 200, "")
	f.reopen()
	diff(first, "").want(t, 409, "BlobOverwritten")
	diff(second, "").want(t, 409, "BlobOverwritten")
	diff(second, "&snapshot="+third).want(t, 409, "BlobOverwritten")
	diff(first, "&snapshot="+second).want(t, 200, "")
	diff(third, "").want(t, 200, "")
	diff(third, "&snapshot="+second).want(t, 400, "PreviousSnapshotCannotBeNewer")
	diff("2020-01-01T00:00:00.0000000Z", "").want(t, 409, "PreviousSnapshotNotFound")

	f.do("PUT", "/box/p", "", "x-ms-copy-source", f.base+"/box/p?snapshot="+second).want(t, 202, "")
	diff(third, "").want(t, 409, "BlobOverwritten")
}

// The type of a blob does not change: not by Put Blob, not by a copy, and not while it consists of uncommitted blocks.
// A blob that was deleted can have a successor of any type.
func TestTypeStays(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	writes := map[string][]string{"BlockBlob": nil, "AppendBlob": nil, "PageBlob": {"x-ms-blob-content-length", "512"}}
	put := func(name, kind string, more ...string) reply {
		headers := append([]string{"x-ms-blob-type", kind}, append(writes[kind], more...)...)
		return f.do("PUT", "/box/"+name, "", headers...)
	}
	for old := range writes {
		put(old, old, "x-ms-meta-old", "yes").want(t, 201, "")
		for kind := range writes {
			if kind == old {
				continue
			}
			put(old, kind).want(t, 409, "InvalidBlobType")
			put(old, kind, "If-None-Match", "*").want(t, 409, "BlobAlreadyExists")
			put(old, kind, "If-Match", `"0x8D4BCC2E4835CD0"`).want(t, 412, "ConditionNotMet")
			header := append([]string{"x-ms-blob-type", kind}, writes[kind]...)
			f.do("PUT", "/box/"+kind+"-source", "", header...).want(t, 201, "")
			f.do("PUT", "/box/"+old, "", "x-ms-copy-source", f.base+"/box/"+kind+"-source").want(t, 409, "InvalidBlobType")
		}
		if r := f.do("HEAD", "/box/"+old, ""); r.header.Get("x-ms-meta-old") != "yes" {
			t.Errorf("%s was written: %v", old, r.header)
		}
		for kind := range writes {
			f.do("DELETE", "/box/"+old, "").want(t, 202, "")
			put(old, kind).want(t, 201, "")
		}
	}
	f.do("PUT", "/box/new?comp=block&blockid=YQ==", "x").want(t, 201, "")
	put("new", "AppendBlob").want(t, 409, "InvalidBlobType")
	put("new", "PageBlob").want(t, 409, "InvalidBlobType")
	put("new", "BlockBlob").want(t, 201, "")

	// Files of trees are replaced by those of another type, as Path Create replaces them.
	tree := lake(t)
	tree.filesystem("files")
	tree.do("PUT", "/files/f", "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	tree.do("PUT", "/files/f", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
}

// Conditions and leases of paths, where the dfs endpoint differs from the Blob endpoint.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/lease
func TestLakeSourcesAndLeases(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	f.lakeDo("PUT", "/files/f?resource=file", "").want(t, 201, "")
	f.lakeDo("PUT", "/files/n", "", "x-ms-rename-source", "/files/f", "x-ms-source-if-none-match", "*").want(t, 412,
		"SourceConditionNotMet")
	acquire := []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1"}
	f.lakeDo("POST", "/files/f", "", acquire...).want(t, 400, "MissingRequiredHeader")
	f.lakeDo("POST", "/files/f", "", append(acquire, "x-ms-proposed-lease-id",
		"11111111-1111-1111-1111-111111111111")...).want(t, 201, "")
	r := f.lakeDo("POST", "/files/f", "", "x-ms-lease-action", "renew", "x-ms-lease-id",
		"22222222-2222-2222-2222-222222222222").want(t, 409, "LeaseIdMismatchWithLeaseOperation")
	if !strings.Contains(r.body, "for the resource with the specified lease operation.") {
		t.Error(r.body)
	}
}

// What a version does not know, or no longer knows, is refused.
func TestValuesOfVersions(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for version, want := range map[string]int{"2021-10-04": 400, "2021-12-02": 201} {
		cold := []string{"x-ms-access-tier", "Cold", "x-ms-version", version}
		if r := f.do("PUT", "/box/c", "x", append(cold, "x-ms-blob-type", "BlockBlob")...); r.status != want {
			t.Errorf("Put Blob at %s: %d %s", version, r.status, r.code())
		}
		if r := f.do("PUT", "/box/b?comp=tier", "", cold...); (r.status == 200) != (want == 201) {
			t.Errorf("Set Blob Tier at %s: %d %s", version, r.status, r.code())
		}
	}
	const id = "11111111-1111-1111-1111-111111111111"
	lease := []string{"x-ms-copy-source", f.base + "/box/b", "x-ms-source-lease-id", id}
	f.do("PUT", "/box/copy", "", lease...).want(t, 400, "UnsupportedHeader")
	old := append(lease, "x-ms-version", "2011-08-18")
	copied := "/box/copy?" + accountSAS(t, "rwc")
	f.anonymous("PUT", copied, old...).want(t, 412, "")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
		"x-ms-proposed-lease-id", id).want(t, 201, "")
	f.anonymous("PUT", copied, old...).want(t, 202, "")
	f.do("PUT", "/box/copy?comp=copy", "", "x-ms-copy-action", "abort").want(t, 400, "MissingRequiredQueryParameter")
}

// A PUT or POST must have a length, also where it has no content: the part before the services refuses it.
func TestLengthIsRequired(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	u := must(url.Parse(f.base))(t)
	for request, want := range map[string]int{
		"PUT /devstoreaccount1/other?restype=container HTTP/1.1\r\n":                      411,
		"POST /devstoreaccount1?comp=batch HTTP/1.1\r\n":                                  411,
		"PUT /devstoreaccount1/other?restype=container HTTP/1.1\r\nContent-Length: 0\r\n": 401,
		"PUT /devstoreaccount1/other/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n":        401,
		"DELETE /devstoreaccount1/box/b HTTP/1.1\r\n":                                     401,
		"GET /devstoreaccount1/box/b HTTP/1.1\r\n":                                        200,
	} {
		c := must(net.Dial("tcp", u.Host))(t)
		// What follows the head is the end of chunks, or more than was announced.
		_ = must(io.WriteString(c, request+"Host: h\r\nx-ms-version: 2021-12-02\r\n\r\n0\r\n\r\n"))(t)
		r := must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		if r.StatusCode != want {
			t.Errorf("%q: %s, want %d", request, r.Status, want)
		}
		if want == 411 && (r.Header.Get("x-ms-error-code") != "" || !r.Close ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "text/html")) {
			t.Errorf("%q: %v", request, r.Header)
		}
		_ = c.Close()
	}
}
