package blobsvc_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Answers that recordings of the SDKs' tests of error paths have, and reports of users.

// A blob that has uncommitted blocks alone can be leased, and keeps the lease when they are committed.
func TestLeaseOfUncommittedBlob(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	const id, other = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	acquire := []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", id}
	f.do("PUT", "/box/new?comp=lease", "", acquire...).want(t, 404, "BlobNotFound")
	f.do("PUT", "/box/new?comp=block&blockid=YQ==", "x").want(t, 201, "")
	r := f.do("PUT", "/box/new?comp=lease", "", acquire...).want(t, 201, "")
	r.wantHeader(t, "ETag", `"0x701CE1722770000"`)
	r.wantHeader(t, "Last-Modified", "Mon, 01 Jan 1601 00:00:00 GMT")
	f.do("PUT", "/box/new?comp=lease", "", "x-ms-lease-action", "change", "x-ms-lease-id", id,
		"x-ms-proposed-lease-id", other).want(t, 200, "")
	f.do("PUT", "/box/new?comp=lease", "", "x-ms-lease-action", "renew", "x-ms-lease-id", id).want(t, 409,
		"LeaseIdMismatchWithLeaseOperation")
	f.do("HEAD", "/box/new", "").want(t, 404, "BlobNotFound")

	// Blocks and lists need the lease, as those of a blob that exists do.
	list := "<BlockList><Latest>YQ==</Latest></BlockList>"
	for _, tc := range []struct{ lease, code string }{{"", "LeaseIdMissing"}, {id, "LeaseIdMismatchWithBlobOperation"}} {
		f.do("PUT", "/box/new?comp=block&blockid=Yg==", "x", "x-ms-lease-id", tc.lease).want(t, 412, tc.code)
		f.do("PUT", "/box/new?comp=blocklist", list, "x-ms-lease-id", tc.lease).want(t, 412, tc.code)
		f.do("PUT", "/box/new?comp=blocklist", "<BlockList><Latest>YY==</Latest></BlockList>", "x-ms-lease-id",
			tc.lease).want(t, 412, tc.code)
		f.do("PUT", "/box/new", "x", "x-ms-blob-type", "BlockBlob", "x-ms-lease-id", tc.lease).want(t, 412, tc.code)
	}
	f.reopen()
	f.do("PUT", "/box/new?comp=block&blockid=Yg==", "y", "x-ms-lease-id", other).want(t, 201, "")
	f.do("PUT", "/box/new?comp=blocklist", list, "x-ms-lease-id", other).want(t, 201, "")
	r = f.do("HEAD", "/box/new", "").want(t, 200, "")
	r.wantHeader(t, "x-ms-lease-state", "leased")
	f.do("DELETE", "/box/new", "").want(t, 412, "LeaseIdMissing")
	f.do("DELETE", "/box/new", "", "x-ms-lease-id", other).want(t, 202, "")
	f.do("PUT", "/box/new?comp=block&blockid=YQ==", "x", "x-ms-lease-id", other).want(t, 412,
		"LeaseNotPresentWithBlobOperation")
}

// Segments of dots are resolved in every path and source, on both endpoints, however they are encoded.
func TestPathsWithDots(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/second?restype=container", "").want(t, 201, "")
	for i, path := range []string{"/box/./key", "/box/%2E/key", "/box/.%2Fkey", "/box/%2E%2Fkey", "/box/a/../key",
		"/second/../box/key"} {
		text := fmt.Sprint(i)
		f.do("PUT", path, text, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		for _, read := range []string{"/box/key", path} {
			if r := f.do("GET", read, "").want(t, 200, ""); r.body != text {
				t.Errorf("%s, read as %s: %q", path, read, r.body)
			}
		}
		f.do("PUT", "/box/copy", "", "x-ms-copy-source", f.base+path).want(t, 202, "")
		if r := f.do("GET", "/box/copy", "").want(t, 200, ""); r.body != text {
			t.Errorf("copy of %s: %q", path, r.body)
		}
	}
	list := f.do("GET", "/box?restype=container&comp=list", "").want(t, 200, "").body
	if strings.Contains(list, "<Name>.") || strings.Contains(list, "<Name>a/") {
		t.Error(list)
	}
	for _, path := range []string{"/box/%01%05x", "/box/%C2%81", "/box/%EE%80%80", "/box/x%7F"} {
		f.do("PUT", path, "x", "x-ms-blob-type", "BlockBlob").want(t, 400, "") // by the part before the service
	}
	f.do("PUT", "/box/%EF%BF%BF", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
}

func TestLakePathsWithDots(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	f.lakeDo("PUT", "/files/d/./x/../f?resource=file", "").want(t, 201, "")
	f.do("HEAD", "/files/./d/%2E/f", "").want(t, 200, "")
	f.lakeDo("PUT", "/files/d/../to", "", "x-ms-rename-source", "/files/./d/x/..%2Ff").want(t, 201, "")
	wantPaths(t, paths(t, fs, true, nil), "d/", "to")
	f.lakeDo("PUT", "/files/other", "", "x-ms-rename-source", "/files/t%01o").want(t, 400, "InvalidSourceUri")
}

// A space in the source of a rename must be encoded, unlike in that of a copy.
func TestSpaceInSource(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	f.lakeDo("PUT", "/files/a%20b?resource=file", "").want(t, 201, "")
	f.lakeDo("PUT", "/files/c", "", "x-ms-rename-source", "/files/a b").want(t, 400, "InvalidSourceUri")
	f.do("PUT", "/files/copy", "", "x-ms-copy-source", f.base+"/files/a b").want(t, 202, "")
	f.lakeDo("PUT", "/files/c", "", "x-ms-rename-source", "/files/a%20b").want(t, 201, "")
}

// Metadata is of ASCII. With Shared Key a request with other metadata has a signature that does not match.
func TestMetadataOutsideASCII(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	f.lakeDo("PUT", "/files/f?resource=file", "").want(t, 201, "")
	token := accountSAS(t, "rwdlac")
	for _, value := range []string{"\u611b", "\xe9", "caf\u00e9"} {
		for _, path := range []string{"/box?restype=container&", "/files?restype=container&comp=metadata&", "/files/b?",
			"/files/f?comp=metadata&", "/files/f?comp=snapshot&"} {
			f.anonymous("PUT", path+token, "x-ms-meta-name", value, "x-ms-blob-type", "BlockBlob").want(t, 400,
				"InvalidMetadata")
		}
		properties := "name=" + base64.StdEncoding.EncodeToString([]byte(value))
		f.lakeDo("PUT", "/files/g?resource=file", "", "x-ms-properties", properties).want(t, 400, "InvalidMetadata")
		f.lakeDo("PATCH", "/files/f?action=setProperties", "", "x-ms-properties", properties).want(t, 400,
			"InvalidMetadata")
		f.lakeDo("PUT", "/other?resource=filesystem", "", "x-ms-properties", properties).want(t, 400, "InvalidMetadata")
	}
	f.do("PUT", "/files/f?comp=metadata", "", "x-ms-meta-name", "\u611b").want(t, 403, "AuthenticationFailed")
}

// The headers and elements that came with a version are absent before it.
func TestHeadersOfVersions(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/m?comp=block&blockid=YQ==", "x").want(t, 201, "")
	for _, tc := range []struct {
		method, path string
		headers      []string
		name, since  string
	}{
		{"HEAD", "/box?restype=container", nil, "x-ms-has-immutability-policy", "2017-11-09"},
		{"HEAD", "/box?restype=container", nil, "x-ms-has-legal-hold", "2017-11-09"},
		{"HEAD", "/box?restype=container", nil, "x-ms-blob-public-access", "2016-05-31"},
		{"GET", "/box/none", nil, "x-ms-error-code", "2017-07-29"},
		{"HEAD", "/none/none", nil, "x-ms-error-code", "2017-07-29"},
		{"GET", "/box/b", []string{"x-ms-range", "bytes=0-0"}, "x-ms-blob-content-md5", "2016-05-31"},
	} {
		for _, version := range []string{"2015-12-11", "2016-05-31", "2017-04-17", "2017-07-29", "2017-11-09", "2018-03-28"} {
			r := f.do(tc.method, tc.path, "", append(tc.headers, "x-ms-version", version)...)
			if got := r.header.Get(tc.name) != ""; got != (version >= tc.since) {
				t.Errorf("%s %s at %s: %s is there: %v", tc.method, tc.path, version, tc.name, got)
			}
		}
	}
	for version, want := range map[string]bool{"2017-04-17": false, "2017-07-29": true} {
		f.do("PUT", "/box/"+version, "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		r := f.do("DELETE", "/box/"+version, "", "x-ms-version", version).want(t, 202, "")
		if got := r.header.Get("x-ms-delete-type-permanent") != ""; got != want {
			t.Errorf("x-ms-delete-type-permanent at %s: %v", version, got)
		}
	}
	for version, want := range map[string]bool{"2017-07-29": false, "2017-11-09": true} {
		list := f.do("GET", "/?comp=list", "", "x-ms-version", version).want(t, 200, "").body
		if got := strings.Contains(list, "<HasLegalHold>"); got != want {
			t.Errorf("HasLegalHold at %s: %v", version, got)
		}
	}
}

// A header of HTTP whose text is not a date is ignored; a header of Azure's own with such a text is an error.
func TestConditionsThatAreNoDates(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for _, text := range []string{"Fri, 11 Jun 2021 20:00:00 UTC", "yesterday"} {
		f.do("HEAD", "/box/b", "", "If-Unmodified-Since", text).want(t, 200, "")
		f.do("HEAD", "/box/b", "", "If-Modified-Since", text).want(t, 200, "")
		f.do("PUT", "/box/copy", "", "x-ms-copy-source", f.base+"/box/b", "x-ms-source-if-modified-since", text).want(t, 400,
			"InvalidHeaderValue")
	}
}

func TestErrorsOfPages(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "4096").want(t, 201, "")
	r := f.do("GET", "/box/p?comp=pagelist", "", "x-ms-range", "bytes=8192-9000").want(t, 416, "InvalidRange")
	r.wantHeader(t, "Content-Range", "")
	r = f.do("GET", "/box/p", "", "x-ms-range", "bytes=8192-9000").want(t, 416, "InvalidRange")
	r.wantHeader(t, "Content-Range", "bytes */4096")
	put := []string{"x-ms-page-write", "update", "x-ms-range", "bytes=0-511"}
	from := append(put, "x-ms-copy-source", f.base+"/box/p", "x-ms-source-range", "bytes=0-511")
	for _, name := range []string{"x-ms-if-sequence-number-lt", "x-ms-if-sequence-number-le"} {
		f.do("PUT", "/box/p?comp=page", strings.Repeat("x", 512), append(put, name, "-1")...).want(t, 400, "InvalidInput")
		r := f.do("PUT", "/box/p?comp=page", "", append(from, name, "-1")...).want(t, 400, "InvalidHeaderValue")
		if !strings.Contains(r.body, "<HeaderName>"+name+"</HeaderName><HeaderValue>-1</HeaderValue>") {
			t.Error(r.body)
		}
	}
	f.do("PUT", "/box/p?comp=page", "", append(from, "If-Match", `"garbage"`)...).want(t, 412, "TargetConditionNotMet")
	f.do("PUT", "/box/p?comp=page", "", append(from, "If-Match", `"0x8D4BCC2E4835CD0"`)...).want(t, 412,
		"ConditionNotMet")
}

func TestErrorsWithDetails(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	r := f.do("PUT", "/box/b?comp=block&blockid=%21%21", "x").want(t, 400, "InvalidQueryParameterValue")
	if !strings.Contains(r.body, "<Reason>Not a valid base64 string.</Reason>") {
		t.Error(r.body)
	}
	wrong := base64.StdEncoding.EncodeToString(make([]byte, 16))
	for _, operation := range [][]string{{"x-ms-requires-sync", "true"}, {"x-ms-blob-type", "BlockBlob"}} {
		r = f.do("PUT", "/box/copy", "", append(operation, "x-ms-copy-source", f.base+"/box/b", "x-ms-source-content-md5",
			wrong)...).want(t, 400, "Md5Mismatch")
		if !strings.Contains(r.body, "<UserSpecifiedMd5>"+wrong+"</UserSpecifiedMd5><ServerCalculatedMd5>nd") {
			t.Errorf("%v: %s", operation, r.body)
		}
	}
	f.do("PUT", "/?comp=undelete&restype=container", "").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", "/?comp=undelete&restype=container", "", "x-ms-deleted-container-name", "box",
		"x-ms-deleted-container-version", "01D60F8BB59A4652").want(t, 400, "InvalidUri")
	r = f.do("GET", "/box/b", "", "x-ms-range-get-content-crc64", "true").want(t, 400, "InvalidHeaderValue")
	if !strings.Contains(r.body, "<HeaderName>x-ms-range-get-content-crc64</HeaderName><HeaderValue>true</HeaderValue>") {
		t.Error(r.body)
	}
}

// The refusal of an account SAS for other resource types names the one that it lacks, from a version on.
func TestResourceTypeThatIsMissing(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	token := accountSAS(t, "rl") // of containers and objects
	const detail = "<ExtendedErrorDetail>SignedResourceTypes 's' is required to perform this operation.</ExtendedErrorDetail>"
	for version, want := range map[string]bool{"2024-05-04": false, "2024-08-04": true, "2026-06-06": true} {
		r := f.anonymous("GET", "/?comp=list&"+token, "x-ms-version", version).want(t, 403,
			"AuthorizationResourceTypeMismatch")
		if strings.Contains(r.body, detail) != want {
			t.Errorf("at %s: %s", version, r.body)
		}
	}
}

// Content whose type was removed is sent without one, on both endpoints, and no guess takes its place.
func TestContentWithoutType(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	for _, text := range []string{"<html>", strings.Repeat("x", 1<<17)} {
		f.do("PUT", "/files/f", text, "x-ms-blob-type", "BlockBlob", "Content-Type", "text/plain").want(t, 201, "")
		f.do("PUT", "/files/f?comp=properties", "", "x-ms-blob-content-type", "").want(t, 200, "")
		for _, method := range []string{"GET", "HEAD"} {
			f.do(method, "/files/f", "").want(t, 200, "").wantHeader(t, "Content-Type", "")
			f.lakeDo(method, "/files/f", "").want(t, 200, "").wantHeader(t, "Content-Type", "")
		}
		f.do("GET", "/files/f", "", "x-ms-range", "bytes=0-1").want(t, 206, "").wantHeader(t, "Content-Type", "")
	}
}

// Versions that do not know the permissions a and c cannot read a policy with them.
func TestPolicyOfALaterVersion(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for letters, want := range map[string]int{"r": 200, "rw": 200, "rc": 409, "ra": 409, "": 200} {
		f.do("PUT", "/box?restype=container&comp=acl", "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy>"+
			"<Permission>"+letters+"</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>").want(t, 200, "")
		r := f.do("GET", "/box?restype=container&comp=acl", "", "x-ms-version", "2014-02-14")
		if r.status != want || want == 409 && !strings.Contains(r.body, "<Code>FeatureVersionMismatch</Code>") {
			t.Errorf("%q: %d %s", letters, r.status, r.body)
		}
		f.do("GET", "/box?restype=container&comp=acl", "", "x-ms-version", "2015-04-05").want(t, 200, "")
	}
}

// The service drops the letter f from a stored access policy.
func TestPolicyWithFilter(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	policy := func(id, letters string) string {
		return "<SignedIdentifier><Id>" + id + "</Id><AccessPolicy><Permission>" + letters +
			"</Permission></AccessPolicy></SignedIdentifier>"
	}
	f.do("PUT", "/box?restype=container&comp=acl", "<SignedIdentifiers>"+policy("a", "racwdxyltfmei")+policy("b", "f")+
		"</SignedIdentifiers>").want(t, 200, "")
	list := f.do("GET", "/box?restype=container&comp=acl", "").want(t, 200, "").body
	if !strings.Contains(list, "<Permission>racwdxyltmei</Permission>") || strings.Count(list, "<Permission>") != 1 {
		t.Error(list)
	}
}

// The dfs endpoint has codes of its own for leases.
func TestLakeLeaseErrors(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	const id, other = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	for _, name := range []string{"free", "held", "source"} {
		f.lakeDo("PUT", "/files/"+name+"?resource=file", "").want(t, 201, "")
	}
	f.lakeDo("POST", "/files/held", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
		"x-ms-proposed-lease-id", id).want(t, 201, "")
	for _, tc := range []struct{ name, lease, code string }{{"free", other, "LeaseNotPresent"},
		{"held", other, "LeaseIdMismatch"}, {"held", "", "LeaseIdMissing"}} {
		for _, op := range []struct {
			method, query, content string
			headers                []string
		}{
			{"PUT", "?resource=file", "", nil}, {"PUT", "", "", []string{"x-ms-rename-source", "/files/source"}},
			{"PATCH", "?action=append&position=0", "x", nil}, {"PATCH", "?action=flush&position=0", "", nil},
			{"PATCH", "?action=setAccessControl", "", []string{"x-ms-permissions", "0700"}},
			{"PATCH", "?action=setProperties", "", []string{"x-ms-properties", "a=MQ=="}}, {"DELETE", "", "", nil},
		} {
			r := f.lakeDo(op.method, "/files/"+tc.name+op.query, op.content, append(op.headers, "x-ms-lease-id", tc.lease)...)
			if r.status != 412 || r.code() != tc.code {
				t.Errorf("%s %s%s: %d %s, want %s", op.method, tc.name, op.query, r.status, r.code(), tc.code)
			}
		}
	}

	// What is renamed onto a leased file is leased as that was.
	f.lakeDo("PUT", "/files/held", "", "x-ms-rename-source", "/files/source", "x-ms-lease-id", id).want(t, 201, "")
	r := f.do("HEAD", "/files/held", "").want(t, 200, "")
	r.wantHeader(t, "x-ms-lease-state", "leased")
	r.wantHeader(t, "x-ms-lease-duration", "infinite")
	f.lakeDo("DELETE", "/files/held", "", "x-ms-lease-id", id).want(t, 200, "")
}

// Errors of the reference's list for the dfs endpoint that no recording has.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/update#response
func TestLakeErrorsOfTheReference(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	f.lakeDo("PUT", "/files/f?resource=file", "").want(t, 201, "")
	for _, tc := range []struct{ method, path, content, properties, code string }{
		{"PUT", "/files/x?resource=file", "x", "", "ContentLengthMustBeZero"},
		{"PUT", "/files/x?resource=directory", "x", "", "ContentLengthMustBeZero"},
		{"PATCH", "/files/f?action=flush&position=0", "x", "", "ContentLengthMustBeZero"},
		{"PUT", "/files/x?resource=file", "", "=YQ==", "InvalidPropertyName"},
		{"PUT", "/files/x?resource=file", "", "a=YQ==,=YQ==", "InvalidPropertyName"},
		{"PUT", "/files/x?resource=file", "", "a b=YQ==", "InvalidPropertyName"},
		{"PATCH", "/files/f?action=setProperties", "", "a:b=YQ==", "InvalidPropertyName"},
		{"PATCH", "/files?resource=filesystem", "", "=", "InvalidPropertyName"},
		{"PUT", "/other?resource=filesystem", "", "a/b=YQ==", "InvalidPropertyName"},
		{"PUT", "/files/x?resource=file", "", "a", "InvalidHeaderValue"},
		{"PUT", "/files/x?resource=file", "", "a=!", "InvalidHeaderValue"},
	} {
		var headers []string
		if tc.properties != "" {
			headers = []string{"x-ms-properties", tc.properties}
		}
		r := f.lakeDo(tc.method, tc.path, tc.content, headers...)
		if r.status != 400 || r.code() != tc.code {
			t.Errorf("%s %s %q: %d %s, want %s", tc.method, tc.path, tc.properties, r.status, r.code(), tc.code)
		}
	}
	wantPaths(t, paths(t, f.filesystem("untouched"), true, nil))
	f.lakeDo("HEAD", "/files/x", "").want(t, 404, "PathNotFound")
}

func TestLakeHeadersOfVersions(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	for _, version := range []string{"2019-02-02", "2020-02-10", "2021-02-12"} {
		at := []string{"x-ms-version", version}
		for _, kind := range []string{"file", "directory"} {
			r := f.lakeDo("PUT", "/files/"+kind+"?resource="+kind, "", at...).want(t, 201, "")
			r.wantHeader(t, "x-ms-request-server-encrypted", "true")
		}
		f.lakeDo("PATCH", "/files/file?action=flush&position=0", "", at...).want(t, 200, "").wantHeader(t,
			"x-ms-request-server-encrypted", map[bool]string{true: "true", false: "false"}[version < "2020-02-10"])
		f.do("PUT", "/files/file?comp=snapshot", "", at...).want(t, 201, "").wantHeader(t, "x-ms-request-server-encrypted",
			"true")
		list := f.lakeDo("GET", "/files?resource=filesystem&recursive=true", "", at...).want(t, 200, "").body
		if n := strings.Count(list, `"expiryTime":"0"`); n != map[bool]int{true: 2}[version >= "2020-10-02"] ||
			strings.Contains(list, "account-encryption-key") {
			t.Errorf("%s: %s", version, list)
		}
		want := map[bool]string{true: "true"}[version >= "2021-02-12"]
		for _, name := range []string{"file", "directory"} {
			f.lakeDo("DELETE", "/files/"+name, "", at...).want(t, 200, "").wantHeader(t, "x-ms-delete-type-permanent", want)
		}
	}
}

// A caller without a credential is refused by the dfs endpoint before it learns what exists.
func TestLakeAnonymous(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("files")
	for version, want := range map[string]string{"2019-07-07": "403 AuthenticationFailed",
		"2019-12-12": "401 NoAuthenticationInformation"} {
		for method, query := range map[string]string{"PUT": "?resource=file", "DELETE": "", "HEAD": ""} {
			hr := f.lakeNew(method, "/files/f"+query, "", "x-ms-version", version)
			hr.Header.Del("Authorization")
			r := f.send(hr)
			if got := fmt.Sprint(r.status, " ", r.code()); got != want {
				t.Errorf("%s at %s: %s, want %s", method, version, got, want)
			}
		}
	}
}

// Deleted paths have the time until which they can be restored, and no lease; deleted blobs had one until 2019.
func TestItemsOfDeleted(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.keepDeleted(2, "")
	f.filesystem("files")
	f.lakeDo("PUT", "/files/gone?resource=file", "").want(t, 201, "")
	until := f.now().Add(48 * time.Hour).UTC().Format(http.TimeFormat)
	f.lakeDo("DELETE", "/files/gone", "").want(t, 200, "")
	list := f.do("GET", "/files?restype=container&comp=list&showonly=deleted", "").want(t, 200, "").body
	if !strings.Contains(list, "<Content-CRC64>AAAAAAAAAAA=</Content-CRC64>") || strings.Contains(list, "<LeaseStatus") ||
		!strings.Contains(list, "<Expiry-Time>"+until[:len("Sun, 29 Nov 2026 00:0")]) {
		t.Errorf("%s: %s", until, list)
	}

	flat := recordedBox(t)
	flat.keepDeleted(2, "")
	flat.do("DELETE", "/box/b", "").want(t, 202, "")
	for version, want := range map[string]bool{"2019-07-07": true, "2019-12-12": false} {
		list := flat.do("GET", "/box?restype=container&comp=list&include=deleted", "", "x-ms-version", version).want(t, 200,
			"").body
		if got := strings.Contains(list, "<LeaseStatus"); got != want || strings.Contains(list, "<Expiry-Time>") {
			t.Errorf("at %s: %s", version, list)
		}
	}
}
