package blobsvc_test

import (
	"strings"
	"testing"
)

// Every header with a word of an enumeration takes it in any case, and refuses other words. Each request is sent in
// upper and in mixed case, to a blob of its own.
func TestHeaderWordsInAnyCase(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	f.do("PUT", "/box/source", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	source := f.base + "/box/source"
	page := strings.Repeat("x", 512)
	for _, tc := range []struct {
		header, word string
		kind         string // of the blob, none if it is empty
		method, path string
		body         string
		headers      []string
		status       int
	}{
		{header: "x-ms-blob-type", word: "BlockBlob", method: "PUT", body: "x", status: 201},
		{header: "x-ms-blob-type", word: "AppendBlob", method: "PUT", status: 201},
		{header: "x-ms-blob-type", word: "PageBlob", method: "PUT", headers: []string{"x-ms-blob-content-length", "512"},
			status: 201},
		{header: "x-ms-lease-action", word: "acquire", kind: "BlockBlob", method: "PUT", path: "?comp=lease",
			headers: []string{"x-ms-lease-duration", "-1"}, status: 201},
		{header: "x-ms-page-write", word: "update", kind: "PageBlob", method: "PUT", path: "?comp=page", body: page,
			headers: []string{"Range", "bytes=0-511"}, status: 201},
		{header: "x-ms-page-write", word: "clear", kind: "PageBlob", method: "PUT", path: "?comp=page",
			headers: []string{"Range", "bytes=0-511"}, status: 201},
		// the legacy client for .NET: Increment
		{header: "x-ms-sequence-number-action", word: "increment", kind: "PageBlob", method: "PUT", path: "?comp=properties",
			status: 200},
		{header: "x-ms-sequence-number-action", word: "max", kind: "PageBlob", method: "PUT", path: "?comp=properties",
			headers: []string{"x-ms-blob-sequence-number", "7"}, status: 200},
		{header: "x-ms-delete-snapshots", word: "include", kind: "BlockBlob", method: "DELETE", status: 202},
		{header: "x-ms-range-get-content-md5", word: "true", kind: "BlockBlob", method: "GET",
			headers: []string{"Range", "bytes=0-0"}, status: 206},
		{header: "x-ms-copy-source-blob-properties", word: "false", method: "PUT",
			headers: []string{"x-ms-copy-source", source, "x-ms-blob-type", "BlockBlob"}, status: 201},
		{header: "x-ms-copy-source-tag-option", word: "COPY", method: "PUT",
			headers: []string{"x-ms-copy-source", source, "x-ms-requires-sync", "true"}, status: 202},
		// the source is no append blob
		{header: "x-ms-seal-blob", word: "true", method: "PUT", headers: []string{"x-ms-copy-source", source}, status: 409},
		{header: "x-ms-access-tier", word: "Cool", kind: "BlockBlob", method: "PUT", path: "?comp=tier", status: 200},
		{header: "x-ms-encryption-algorithm", word: "AES256", kind: "BlockBlob", method: "GET", status: 200},
	} {
		t.Run(tc.header+"="+tc.word, func(t *testing.T) {
			for i, word := range []string{strings.ToUpper(tc.word), strings.ToLower(tc.word), "bogus"} {
				blob := "/box/" + tc.header + tc.word + string(rune('0'+i))
				if tc.kind != "" {
					h := []string{"x-ms-blob-type", tc.kind}
					if tc.kind == "PageBlob" {
						h = append(h, "x-ms-blob-content-length", "512")
					}
					f.do("PUT", blob, map[string]string{"BlockBlob": "x"}[tc.kind], h...).want(t, 201, "")
				}
				status, code := tc.status, map[int]string{409: "InvalidBlobType"}[tc.status]
				if word == "bogus" {
					status, code = 400, "InvalidHeaderValue"
				}
				f.do(tc.method, blob+tc.path, tc.body, append(tc.headers, tc.header, word)...).want(t, status, code)
			}
		})
	}
	f.do("PUT", "/public?restype=container", "", "x-ms-blob-public-access", "Blob").want(t, 201, "")
	if got := f.do("GET", "/public?restype=container&comp=acl", "").want(t, 200,
		"").header.Get("x-ms-blob-public-access"); got != "blob" {
		t.Error(got)
	}
}

// The words of parameters and bodies are read in any case, too.
func TestParameterWordsInAnyCase(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?RESTYPE=Container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "n\n1\n", "x-ms-blob-type", "BlockBlob", "x-ms-meta-k", "v").want(t, 201, "")
	for _, tc := range []struct{ method, path, body, want string }{
		{"GET", "/box?restype=CONTAINER&comp=List&include=MetaData", "", "<K>v</K>"},
		{"GET", "/box/b?comp=BlockList", "", "<CommittedBlocks"},
		{"POST", "/box/b?comp=QUERY", "<QueryRequest><QueryType>sql</QueryType><Expression>SELECT n FROM " +
			"BlobStorage</Expression><InputSerialization><Format><Type>Delimited</Type>" +
			"<DelimitedTextConfiguration><HasHeaders>True</HasHeaders></DelimitedTextConfiguration></Format></InputSerialization></QueryRequest>", "1\n"},
	} {
		if r := f.do(tc.method, tc.path, tc.body).want(t, 200, ""); !strings.Contains(r.body, tc.want) {
			t.Errorf("%s %s: %s", tc.method, tc.path, r.body)
		}
	}
	f.do("PUT", "/?restype=Service&comp=Properties",
		"<StorageServiceProperties><DeleteRetentionPolicy><Enabled>True</Enabled><Days>3</Days></DeleteRetentionPolicy></StorageServiceProperties>").want(t, 202, "")
	if r := f.do("GET", "/?restype=service&comp=properties", "").want(t, 200, ""); !strings.Contains(r.body,
		"<DeleteRetentionPolicy><Enabled>true</Enabled>") {
		t.Error(r.body)
	}
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024").want(t, 201, "")
	f.do("PUT", "/box/p?comp=page", "", "x-ms-page-write", "Clear", "Range", "bytes=0-512").want(t, 400,
		"InvalidHeaderValue")
	f.do("GET", "/box?restype=boxes&comp=list", "").want(t, 400, "InvalidQueryParameterValue")
	f.do("GET", "/box?restype=container&comp=list&include=bogus", "").want(t, 400, "InvalidQueryParameterValue")
}
