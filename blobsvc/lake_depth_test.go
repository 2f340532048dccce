package blobsvc_test

import (
	"slices"
	"strings"
	"testing"
)

// A path with too many directories does not exist: what reads or changes it fails as for any other one, on both
// endpoints; what would create it fails for its depth.
func TestLakeTooDeep(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	writeFile(t, fs, "file", "")
	deep := "/files/" + strings.Repeat("d/", 60) + "d"
	const missing = 404
	for _, tc := range []struct {
		method, query string
		headers       []string
		blob          bool
		status        int
		code          string
	}{
		{"HEAD", "", nil, false, missing, "PathNotFound"},
		{"HEAD", "?action=getStatus", nil, false, missing, "PathNotFound"},
		{"HEAD", "?action=getAccessControl", nil, false, missing, "PathNotFound"},
		{"GET", "", nil, false, missing, "PathNotFound"},
		{"PATCH", "?action=setProperties", []string{"x-ms-properties", "a=MQ=="}, false, missing, "PathNotFound"},
		{"PATCH", "?action=setAccessControl", []string{"x-ms-permissions", "0777"}, false, missing, "PathNotFound"},
		{"PATCH", "?action=setAccessControlRecursive&mode=set", []string{"x-ms-acl", "user::rwx"}, false, missing,
			"PathNotFound"},
		{"PATCH", "?action=append&position=0", nil, false, missing, "PathNotFound"},
		{"PATCH", "?action=flush&position=0", nil, false, missing, "PathNotFound"},
		{"POST", "", []string{"x-ms-lease-action", "break"}, false, missing, "PathNotFound"},
		{"DELETE", "?recursive=true", nil, false, missing, "PathNotFound"},
		{"PUT", "?resource=file", nil, false, 409, "PathIsTooDeep"},
		{"PUT", "?resource=directory", nil, false, 409, "PathIsTooDeep"},
		{"PUT", "", []string{"x-ms-rename-source", "/files/file"}, false, 409, "PathIsTooDeep"},
		{"HEAD", "", nil, true, missing, "BlobNotFound"},
		{"GET", "", nil, true, missing, "BlobNotFound"},
		{"HEAD", "?comp=metadata", nil, true, missing, "BlobNotFound"},
		{"PUT", "?comp=metadata", nil, true, missing, "BlobNotFound"},
		{"PUT", "?comp=properties", nil, true, missing, "BlobNotFound"},
		{"PUT", "?comp=tier", []string{"x-ms-access-tier", "Cool"}, true, missing, "BlobNotFound"},
		{"PUT", "?comp=snapshot", nil, true, missing, "BlobNotFound"},
		{"PUT", "?comp=lease", []string{"x-ms-lease-action", "break"}, true, missing, "BlobNotFound"},
		{"GET", "?comp=blocklist", nil, true, missing, "BlobNotFound"},
		{"DELETE", "", nil, true, missing, "BlobNotFound"},
		{"PUT", "", []string{"x-ms-blob-type", "BlockBlob"}, true, 409, "PathIsTooDeep"},
		{"PUT", "?comp=block&blockid=AA==", nil, true, 409, "PathIsTooDeep"},
	} {
		do := f.lakeDo
		if tc.blob {
			do = f.do
		}
		content := ""
		if strings.Contains(tc.query, "comp=block&") || strings.Contains(tc.query, "append") {
			content = "x"
		}
		if r := do(tc.method, deep+tc.query, content, tc.headers...); r.status != tc.status || r.code() != tc.code {
			t.Errorf("%s %s: %d %s, want %d %s", tc.method, tc.query, r.status, r.code(), tc.status, tc.code)
		}
	}
	f.lakeDo("PUT", "/files/new", "", "x-ms-rename-source", deep).want(t, 404, "SourcePathNotFound")
	f.do("PUT", "/files/new", "", "x-ms-copy-source", f.base+deep).want(t, 404, "BlobNotFound")
	list := strings.TrimPrefix(deep, "/files/")
	f.lakeDo("GET", "/files?resource=filesystem&recursive=true&directory="+list, "").want(t, 404, "PathNotFound")
	r := f.do("GET", "/files?restype=container&comp=list&prefix="+list+"/", "").want(t, 200, "")
	if strings.Contains(r.body, "<Name>") {
		t.Error(r.body)
	}
}

// What writes the whole of a file by the Blob endpoint gives it the access control list of a new file, what commits
// blocks keeps its list.
func TestLakeOverwriteResetsList(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	writeFile(t, fs, "source", "s")
	source := f.base + "/files/source?" + f.token(t, "c", "files", "r")
	const own, fresh = "user::rwx,user:someone:rw-,group::r-x,mask::rwx,other::r--", "user::rw-,group::r--,other::---"
	for _, tc := range []struct {
		name, content, want string
		headers             []string
	}{
		{"", "x", fresh, []string{"x-ms-blob-type", "BlockBlob"}},
		{"", "", fresh, []string{"x-ms-blob-type", "AppendBlob"}},
		{"", "", fresh, []string{"x-ms-copy-source", f.base + "/files/source"}},
		{"", "", fresh, []string{"x-ms-copy-source", source, "x-ms-requires-sync", "true"}},
		{"", "", fresh, []string{"x-ms-copy-source", source, "x-ms-blob-type", "BlockBlob"}},
		{"?comp=blocklist", "<BlockList></BlockList>", own, []string{"x-ms-version", "2021-12-02"}},
		{"?comp=metadata", "", own, nil},
	} {
		f.lakeDo("DELETE", "/files/file", "")
		kind := "BlockBlob"
		if slices.Contains(tc.headers, "AppendBlob") { // no blob changes its kind
			kind = "AppendBlob"
		}
		f.do("PUT", "/files/file", "", "x-ms-blob-type", kind).want(t, 201, "")
		f.lakeDo("PATCH", "/files/file?action=setAccessControl", "", "x-ms-acl", own,
			"x-ms-owner", "someone").want(t, 200, "")
		if r := f.do("PUT", "/files/file"+tc.name, tc.content, tc.headers...); r.status >= 300 {
			t.Errorf("%s %v: %d %s", tc.name, tc.headers, r.status, r.body)
		}
		head := f.lakeDo("HEAD", "/files/file?action=getAccessControl", "").want(t, 200, "").header
		if got, owner := head.Get("x-ms-acl"), head.Get("x-ms-owner"); got != tc.want || owner != "someone" {
			t.Errorf("%s %v: list %s of %s, want %s", tc.name, tc.headers, got, owner, tc.want)
		}
	}
}

// The address of the Blob endpoint takes the requests of the dfs protocol that it can tell from its own: Python's
// client sends both there if it gets the connection string that the server prints.
func TestLakeAtTheAddressOfBlob(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.do("PUT", "/files?resource=filesystem", "").want(t, 201, "")
	f.do("PUT", "/files/d/f?resource=file", "").want(t, 201, "")
	f.do("PATCH", "/files/d/f?action=append&position=0", "x").want(t, 202, "")
	f.do("PATCH", "/files/d/f?action=flush&position=1", "").want(t, 200, "")
	f.do("PUT", "/files/e?mode=legacy", "", "x-ms-rename-source", "/files/d").want(t, 201, "")
	f.do("DELETE", "/files/e", "").want(t, 409, "DirectoryIsNotEmpty")
	f.do("DELETE", "/files/e?recursive=true", "").want(t, 200, "")
	f.do("HEAD", "/files/e", "").want(t, 404, "BlobNotFound")
}
