package blobsvc_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
)

// A flat account serves the dfs endpoint but for what needs a tree: directories are empty blobs with a mark, or only
// the names below them.
func TestLakeFlatAccount(t *testing.T) {
	t.Parallel()
	f := start(t)
	fs := f.filesystem("files")
	if r := f.lakeDo("HEAD", "/files?resource=filesystem", "").want(t, 200, ""); r.header.Get(
		"x-ms-namespace-enabled") != "false" {
		t.Errorf("the filesystem says %v", r.header)
	}
	must(fs.NewDirectoryClient("d").Create(ctx, nil))(t)
	c := writeFile(t, fs, "d/sub/f", "hello")
	writeFile(t, fs, "d.txt", "")
	if got := readFile(t, c); got != "hello" {
		t.Errorf("content %q", got)
	}
	wantPaths(t, paths(t, fs, true, nil), "d/", "d.txt", "d/sub/", "d/sub/f")
	wantPaths(t, paths(t, fs, false, nil), "d/", "d.txt")
	file := "d.txt"
	wantPaths(t, paths(t, fs, false, &filesystem.ListPathsOptions{Prefix: &file}), "d.txt")
	f.lakeDo("PUT", "/files/d?resource=file", "").want(t, 409, "PathConflict")
	f.lakeDo("PUT", "/files/d.txt?resource=directory", "").want(t, 409, "PathConflict")
	f.lakeDo("PUT", "/files/d.txt/below/x?resource=file", "").want(t, 409, "PathConflict")
	dir := "d"
	wantPaths(t, paths(t, fs, false, &filesystem.ListPathsOptions{Prefix: &dir}), "d/sub/")
	if r := f.lakeDo("HEAD", "/files/d", "").want(t, 200, ""); r.header.Get("x-ms-resource-type") != "directory" ||
		r.header.Get("x-ms-owner") != "" || r.header.Get("x-ms-acl") != "" {
		t.Errorf("the directory says %v", r.header)
	}
	f.lakeDo("PATCH", "/files/d/sub/f?action=setProperties", "", "x-ms-properties", "a=MQ==").want(t, 200, "")
	f.lakeDo("POST", "/files/d/sub/f", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "15",
		"x-ms-proposed-lease-id", "11111111-1111-1111-1111-111111111111").want(t, 201, "")
	f.lakeDo("PATCH", "/files/d/sub/f?action=append&position=5", "!").want(t, 412, "LeaseIdMissing")
	f.lakeDo("POST", "/files/d/sub/f", "", "x-ms-lease-action", "release", "x-ms-lease-id",
		"11111111-1111-1111-1111-111111111111").want(t, 200, "")
	const needs = "HierarchicalNamespaceNotEnabled"
	for _, tc := range []struct {
		method, path string
		headers      []string
	}{
		{"PUT", "/files/g", []string{"x-ms-rename-source", "/files/d.txt", "x-ms-permissions", "0700"}},
		{"PUT", "/files/g?resource=file", []string{"x-ms-acl", "user::rwx,group::---,other::---"}},
		{"PUT", "/files/g?resource=file", []string{"x-ms-permissions", "0700"}},
		{"PUT", "/files/g?resource=file", []string{"x-ms-umask", "0000"}},
		{"PUT", "/files/g?resource=file", []string{"x-ms-owner", "someone"}},
		{"PUT", "/files/g?resource=file", []string{"x-ms-encryption-context", "c"}},
		{"PATCH", "/files/d.txt?action=setAccessControl", []string{"x-ms-permissions", "0700"}},
		{"PATCH", "/files/d?action=setAccessControlRecursive&mode=set",
			[]string{"x-ms-acl", "user::rwx,group::---,other::---"}},
	} {
		f.lakeDo(tc.method, tc.path, "", tc.headers...).want(t, 400, needs)
	}
	for _, action := range []string{"getAccessControl", "checkAccess&fsAction=r--"} {
		for _, path := range []string{"/files/d.txt", "/files/none", "/files/", "/nothing/"} { // Hadoop asks about the root
			if r := f.lakeDo("HEAD", path+"?action="+action, ""); r.status != 400 || r.code() != needs {
				t.Errorf("%s of %s: %d %s", action, path, r.status, r.code())
			}
		}
	}
	f.lakeDo("HEAD", "/files/g", "").want(t, 404, "PathNotFound")
	f.lakeDo("DELETE", "/files/d", "").want(t, 409, "DirectoryNotEmpty")
	f.lakeDo("DELETE", "/files/d?recursive=true", "", "If-Match", `"0x1"`).want(t, 412, "ConditionNotMet")
	f.lakeDo("DELETE", "/files/d/sub?recursive=true", "", "If-Match", `"0x1"`).want(t, 412, "ConditionNotMet")
	wantPaths(t, paths(t, fs, true, nil), "d/", "d.txt", "d/sub/", "d/sub/f")
	r := f.lakeDo("DELETE", "/files/d?recursive=true", "").want(t, 200, "")
	if strings.TrimSpace(r.body) != "" {
		t.Errorf("the deletion says %q", r.body)
	}
	wantPaths(t, paths(t, fs, true, nil), "d.txt")
}

// A rename in a flat account moves blobs one by one, those of a directory a page a request.
func TestLakeFlatRename(t *testing.T) {
	t.Parallel()
	f := start(t)
	fs, other := f.filesystem("files"), f.filesystem("other")
	const (
		lease  = "11111111-1111-1111-1111-111111111111"
		second = "22222222-2222-2222-2222-222222222222"
	)
	acquire := func(path, id string) {
		f.lakeDo("POST", path, "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", id).
			want(t, 201, "")
	}
	writeFile(t, fs, "a", "content")
	f.lakeDo("PATCH", "/files/a?action=setProperties", "", "x-ms-properties", "k=dg==", "x-ms-content-type", "text/x").
		want(t, 200, "")
	writeFile(t, fs, "b", "other content")
	must(fs.NewDirectoryClient("d").Create(ctx, nil))(t)
	for _, name := range []string{"c", "d/1", "d/sub/2", "d.txt"} {
		writeFile(t, fs, name, name)
	}
	f.do("PUT", "/files/implicit/3", "implicit/3", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	must(fs.NewDirectoryClient("empty").Create(ctx, nil))(t)
	acquire("/files/a", lease)
	acquire("/files/b", second)
	all := paths(t, fs, true, nil)
	const kinds = "InvalidSourceOrDestinationResourceType"
	for _, tc := range []struct {
		from, to string
		headers  []string
		status   int
		code     string
	}{
		{"/files/none", "/files/x", nil, 404, "SourcePathNotFound"},
		{"/nothing/a", "/files/x", nil, 404, "FilesystemNotFound"},
		{"/files/d.txt", "/nothing/x", nil, 404, "FilesystemNotFound"},
		{"/files/d", "/files/d/e", nil, 409, "InvalidRenameSourcePath"},
		{"/files/d", "/files", nil, 409, "InvalidRenameSourcePath"},
		{"/files/d.txt", "/files/nowhere/x", nil, 404, "RenameDestinationParentPathNotFound"},
		{"/files/d.txt", "/files/c/x", nil, 409, "PathConflict"},
		{"/files/d", "/files/implicit", nil, 409, "DirectoryNotEmpty"},
		{"/files/d", "/files/d.txt", nil, 409, kinds},
		{"/files/d.txt", "/files/d", nil, 409, kinds},
		{"/files/d.txt", "/files/empty", nil, 409, kinds},
		{"/files/d.txt", "/files/implicit", nil, 409, kinds},
		{"/files/implicit", "/files/empty", []string{"If-None-Match", "*"}, 412, "ConditionNotMet"},
		{"/files/implicit", "/files/x", []string{"x-ms-source-if-match", `"0x1"`}, 404, "SourcePathNotFound"},
		{"/files/d", "/files/x", []string{"x-ms-source-if-match", `"0x1"`}, 412, "SourceConditionNotMet"},
		{"/files/d.txt", "/files/c", []string{"If-None-Match", "*"}, 409, "PathAlreadyExists"},
		{"/files/d.txt", "/files/a", []string{"x-ms-lease-id", lease, "If-Match", `"0x1"`}, 412, "ConditionNotMet"},
		{"/files/d.txt", "/files/a", nil, 412, "LeaseIdMissing"},
		{"/files/a", "/files/x", nil, 412, "LeaseIdMissing"},
		{"/files/a", "/files/b", []string{"x-ms-source-lease-id", lease}, 412, "LeaseIdMissing"},
		{"/files/a", "/files/x?continuation=none", []string{"x-ms-source-lease-id", lease}, 400,
			"InvalidQueryParameterValue"},
	} {
		path, query, _ := strings.Cut(tc.to, "?")
		headers := append([]string{"x-ms-rename-source", tc.from}, tc.headers...)
		r := f.lakeDo("PUT", path+"?mode=legacy&"+query, "", headers...)
		if r.status != tc.status || r.code() != tc.code {
			t.Errorf("%s to %s %v: %d %s, want %d %s", tc.from, tc.to, tc.headers, r.status, r.code(), tc.status, tc.code)
		}
	}
	wantPaths(t, paths(t, fs, true, nil), all...)

	rename := func(from, to string, headers ...string) {
		t.Helper()
		f.lakeDo("PUT", to+"?mode=legacy", "", append([]string{"x-ms-rename-source", from}, headers...)...).want(t, 201, "")
	}
	rename("/files/a", "/files/b", "x-ms-source-lease-id", lease, "x-ms-lease-id", second)
	r := f.lakeDo("HEAD", "/files/b", "").want(t, 200, "")
	if got := readFile(t, fs.NewFileClient("b")); got != "content" || r.header.Get("x-ms-properties") != "k=dg==" ||
		r.header.Get("Content-Type") != "text/x" || r.header.Get("x-ms-lease-state") != "leased" {
		t.Errorf("the file is %q %v", got, r.header)
	}
	f.lakeDo("PATCH", "/files/b?action=append&position=7", "!", "x-ms-lease-id", second).want(t, 202, "")
	rename("/files/d", "/files/empty", "x-ms-properties", "of=ZA==")
	if r := f.lakeDo("HEAD", "/files/empty", ""); r.header.Get("x-ms-resource-type") != "directory" ||
		r.header.Get("x-ms-properties") != "of=ZA==" {
		t.Errorf("the directory says %v", r.header)
	}
	rename("/files/implicit", "/other/i")
	rename("/files/d.txt", "/files/d.txt")
	wantPaths(t, paths(t, fs, true, nil), "b", "c", "d.txt", "empty/", "empty/1", "empty/sub/", "empty/sub/2")
	wantPaths(t, paths(t, other, true, nil), "i/3")
	if got := readFile(t, other.NewFileClient("i/3")); got != "implicit/3" {
		t.Errorf("content %q", got)
	}

	f.do("PUT", "/files/b?comp=snapshot", "", "x-ms-lease-id", second).want(t, 201, "")
	f.lakeDo("PUT", "/files/x", "", "x-ms-rename-source", "/files/b", "x-ms-source-lease-id", second).
		want(t, 409, "SnapshotsPresent")

	const many = 1100
	for i := range many {
		f.do("PUT", fmt.Sprintf("/other/many/%04d", i), "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	}
	must(other.NewDirectoryClient("at").Create(ctx, nil))(t)
	token := f.lakeDo("PUT", "/other/at", "", "x-ms-rename-source", "/other/many").want(t, 201, "").
		header.Get("x-ms-continuation")
	if token == "" {
		t.Fatal("the first page is the last")
	}
	r = f.lakeDo("PUT", "/other/at?continuation="+url.QueryEscape(token), "", "x-ms-rename-source", "/other/many").
		want(t, 201, "")
	dir := "at/many" // without the mode a directory is where it goes to
	if got := paths(t, other, true, &filesystem.ListPathsOptions{Prefix: &dir}); len(got) != many ||
		r.header.Get("x-ms-continuation") != "" {
		t.Errorf("%d files were moved", len(got))
	}
}
