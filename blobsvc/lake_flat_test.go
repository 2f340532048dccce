package blobsvc_test

import (
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
	wantPaths(t, paths(t, fs, true, nil), "d/", "d.txt", "d/sub/f")
	wantPaths(t, paths(t, fs, false, nil), "d/", "d.txt")
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
		{"PUT", "/files/g", []string{"x-ms-rename-source", "/files/d.txt"}},
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
		if r := f.lakeDo("HEAD", "/files/d.txt?action="+action, ""); r.status != 400 || r.code() != needs {
			t.Errorf("%s: %d %s", action, r.status, r.code())
		}
	}
	f.lakeDo("HEAD", "/files/g", "").want(t, 404, "PathNotFound")
	f.lakeDo("DELETE", "/files/d", "").want(t, 409, "DirectoryNotEmpty")
	f.lakeDo("DELETE", "/files/d?recursive=true", "", "If-Match", `"0x1"`).want(t, 412, "ConditionNotMet")
	f.lakeDo("DELETE", "/files/d/sub?recursive=true", "", "If-Match", `"0x1"`).want(t, 404, "PathNotFound")
	wantPaths(t, paths(t, fs, true, nil), "d/", "d.txt", "d/sub/f")
	r := f.lakeDo("DELETE", "/files/d?recursive=true", "").want(t, 200, "")
	if strings.TrimSpace(r.body) != "" {
		t.Errorf("the deletion says %q", r.body)
	}
	wantPaths(t, paths(t, fs, true, nil), "d.txt")
}
