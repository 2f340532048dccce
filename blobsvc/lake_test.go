package blobsvc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/file"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
	lakeservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// lake starts a service whose accounts have a hierarchical namespace.
func lake(t testing.TB) *fixture {
	t.Helper()
	return managed(t, accountprops.Blob{Hierarchical: true})
}

// lakeOptions are the options of clients of the dfs endpoint: they address the account by its host names, as on Azure.
func (f *fixture) lakeOptions() azcore.ClientOptions {
	u, err := url.Parse(f.base)
	if err != nil {
		f.t.Fatal(err)
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, u.Host)
	}
	transport := &http.Transport{DialContext: dial}
	f.t.Cleanup(transport.CloseIdleConnections)
	return azcore.ClientOptions{Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1}}
}

const lakeHost = "http://" + auth.DevelopmentAccount + ".dfs.localhost"

// lakeService is a client of the dfs endpoint with the account's key.
func (f *fixture) lakeService() *lakeservice.Client {
	f.t.Helper()
	key := must(azdatalake.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(f.t)
	return must(lakeservice.NewClientWithSharedKeyCredential(lakeHost, key,
		&lakeservice.ClientOptions{ClientOptions: f.lakeOptions()}))(f.t)
}

// filesystem creates a filesystem.
func (f *fixture) filesystem(name string) *filesystem.Client {
	f.t.Helper()
	fs := f.lakeService().NewFileSystemClient(name)
	must(fs.Create(ctx, nil))(f.t)
	return fs
}

// wantCode fails unless err is an error of the service with a status and a code.
func wantAnswer(t testing.TB, err error, status int, code string) {
	t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) || e.StatusCode != status || e.ErrorCode != code {
		t.Errorf("got %v, want %d %s", err, status, code)
	}
}

// write creates a file with content.
func writeFile(t testing.TB, fs *filesystem.Client, name, content string) *file.Client {
	t.Helper()
	c := fs.NewFileClient(name)
	must(c.Create(ctx, nil))(t)
	if content != "" {
		must(c.AppendData(ctx, 0, body(content), nil))(t)
		must(c.FlushData(ctx, int64(len(content)), nil))(t)
	}
	return c
}

// containerOf is the name of a container.
func nameOf(c *container.Client) string { return path.Base(c.URL()) }

// read returns the content of a file.
func readFile(t testing.TB, c *file.Client) string {
	t.Helper()
	r := must(c.DownloadStream(ctx, nil))(t)
	defer r.Body.Close()
	return string(must(io.ReadAll(r.Body))(t))
}

// clean does the background work.
func (f *fixture) clean() {
	f.t.Helper()
	if err := f.parts.Clean(ctx); err != nil {
		f.t.Fatal(err)
	}
}

// paths lists a filesystem below a directory.
func paths(t testing.TB, fs *filesystem.Client, recursive bool, o *filesystem.ListPathsOptions) (names []string) {
	t.Helper()
	pager := fs.NewListPathsPager(recursive, o)
	for pager.More() {
		page := must(pager.NextPage(ctx))(t)
		for _, p := range page.Paths {
			name := *p.Name
			if p.IsDirectory != nil && *p.IsDirectory {
				name += "/"
			}
			names = append(names, name)
		}
	}
	return names
}

func wantPaths(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

func TestLakeFilesystem(t *testing.T) {
	t.Parallel()
	f := lake(t)
	s := f.lakeService()
	fs := s.NewFileSystemClient("one")
	must(fs.Create(ctx, &filesystem.CreateOptions{Metadata: map[string]*string{"color": to.Ptr("blue")}}))(t)
	_, err := fs.Create(ctx, nil)
	// the client creates it at the Blob endpoint
	if e := new(azcore.ResponseError); !errors.As(err, &e) || e.StatusCode != 409 {
		t.Errorf("got %v", err)
	}
	p := must(fs.GetProperties(ctx, nil))(t)
	if v := p.Metadata["Color"]; v == nil || *v != "blue" {
		t.Errorf("metadata %v", p.Metadata)
	}
	must(s.NewFileSystemClient("two").Create(ctx, nil))(t)
	var names []string
	for pager := s.NewListFileSystemsPager(nil); pager.More(); {
		for _, item := range must(pager.NextPage(ctx))(t).FileSystemItems {
			names = append(names, *item.Name)
		}
	}
	wantPaths(t, names, "one", "two")
	must(fs.Delete(ctx, nil))(t)
	_, err = fs.NewFileClient("x").Create(ctx, nil)
	wantAnswer(t, err, 404, "FilesystemNotFound")
}

func TestLakeFile(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	c := fs.NewFileClient("a/b/c.txt")
	must(c.Create(ctx, &file.CreateOptions{HTTPHeaders: &file.HTTPHeaders{ContentType: to.Ptr("text/plain")}}))(t)
	must(c.AppendData(ctx, 0, body("hello "), nil))(t)
	must(c.AppendData(ctx, 6, body("world"), nil))(t)
	_, err := c.FlushData(ctx, 9, nil)
	wantAnswer(t, err, 400, "InvalidFlushPosition")
	must(c.FlushData(ctx, 11, nil))(t)
	if got := readFile(t, c); got != "hello world" {
		t.Errorf("content %q", got)
	}
	must(c.AppendData(ctx, 11, body("!"), nil))(t)
	must(c.FlushData(ctx, 12, nil))(t)
	r := must(c.DownloadStream(ctx, &file.DownloadStreamOptions{Range: &file.HTTPRange{Offset: 6, Count: 6}}))(t)
	if got := string(must(io.ReadAll(r.Body))(t)); got != "world!" {
		t.Errorf("range %q", got)
	}
	p := must(c.GetProperties(ctx, nil))(t)
	if *p.ContentType != "text/plain" || *p.ContentLength != 12 || *p.Owner != "$superuser" ||
		*p.Permissions != "rw-r-----" || *p.ResourceType != "file" {
		t.Errorf("properties %+v", p)
	}
	wantPaths(t, paths(t, fs, true, nil), "a/", "a/b/", "a/b/c.txt")
	// Content that was appended beyond the flushed position stays only if it is asked for.
	must(c.AppendData(ctx, 12, body("one"), nil))(t)
	must(c.AppendData(ctx, 15, body("two"), nil))(t)
	must(c.FlushData(ctx, 15, &file.FlushDataOptions{RetainUncommittedData: to.Ptr(true)}))(t)
	must(c.FlushData(ctx, 18, nil))(t)
	if got := readFile(t, c); got != "hello world!onetwo" {
		t.Errorf("content %q", got)
	}
	_, err = fs.NewFileClient("a/b").Create(ctx, nil)
	wantAnswer(t, err, 409, "PathConflict")
	_, err = fs.NewFileClient("a/b/c.txt/d").Create(ctx, nil)
	wantAnswer(t, err, 409, "PathConflict")
	_,
		err = c.Create(ctx,
		&file.CreateOptions{AccessConditions: &file.AccessConditions{
			ModifiedAccessConditions: &file.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	wantAnswer(t, err, 409, "PathAlreadyExists")
	must(c.Delete(ctx, nil))(t)
	_, err = c.Delete(ctx, nil)
	wantAnswer(t, err, 404, "PathNotFound")
	big := bytes.Repeat([]byte("0123456789"), 1<<20)
	must(c.Create(ctx, nil))(t)
	if err := c.UploadBuffer(ctx, big, &file.UploadBufferOptions{ChunkSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, c); got != string(big) {
		t.Errorf("%d bytes, want %d", len(got), len(big))
	}
}

func TestRenameContainer(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("before")
	writeFile(t, fs, "d/f", "content")
	f.do("PUT", "/after?restype=container&comp=rename", "").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", "/after?restype=container&comp=rename", "", "x-ms-source-container-name", "nothing").want(t, 404,
		"ContainerNotFound")
	f.do("PUT", "/after?restype=container&comp=rename", "", "x-ms-source-container-name", "before").want(t, 200, "")
	f.filesystem("before")
	f.do("PUT", "/after?restype=container&comp=rename", "", "x-ms-source-container-name", "before").want(t, 409,
		"ContainerAlreadyExists")
	if got := readFile(t, f.lakeService().NewFileSystemClient("after").NewFileClient("d/f")); got != "content" {
		t.Errorf("content %q", got)
	}
}

func TestLakeRename(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	other := f.filesystem("other")
	writeFile(t, fs, "dir/sub/one", "1")
	leased := writeFile(t, fs, "dir/two", "2")
	before := *must(leased.GetProperties(ctx, nil))(t).ETag
	dir := fs.NewDirectoryClient("dir")
	must(dir.Rename(ctx, "moved", nil))(t)
	wantPaths(t, paths(t, fs, true, nil), "moved/", "moved/sub/", "moved/sub/one", "moved/two")
	if got := readFile(t, fs.NewFileClient("moved/sub/one")); got != "1" {
		t.Errorf("content %q", got)
	}
	if after := *must(fs.NewFileClient("moved/two").GetProperties(ctx, nil))(t).ETag; after != before {
		t.Errorf("the entity tag of what is below became %s, was %s", after, before)
	}
	moved := fs.NewDirectoryClient("moved")
	_, err := moved.Rename(ctx, "moved/sub/inside", nil)
	wantAnswer(t, err, 409, "InvalidRenameSourcePath")
	_, err = moved.Rename(ctx, "no/such/parent", nil)
	wantAnswer(t, err, 404, "RenameDestinationParentPathNotFound")
	_, err = dir.Rename(ctx, "x", nil)
	wantAnswer(t, err, 404, "SourcePathNotFound")
	writeFile(t, fs, "file", "f")
	_, err = fs.NewFileClient("file").Rename(ctx, "moved", nil)
	wantAnswer(t, err, 409, "InvalidSourceOrDestinationResourceType")
	must(fs.NewDirectoryClient("full/x").Create(ctx, nil))(t)
	_, err = moved.Rename(ctx, "full", nil)
	wantAnswer(t, err, 409, "DirectoryNotEmpty")
	must(fs.NewDirectoryClient("empty").Create(ctx, nil))(t)
	must(moved.Rename(ctx, "empty", nil))(t)
	must(fs.NewFileClient("file").Rename(ctx, "empty/two", nil))(t)
	if got := readFile(t, fs.NewFileClient("empty/two")); got != "f" {
		t.Errorf("content %q", got)
	}
	// To another filesystem.
	r := f.lakeDo("PUT", "/other/here?mode=posix", "", "x-ms-rename-source", "/files/empty", "x-ms-version", "2020-02-10").
		want(t, 201, "")
	if r.header.Get("ETag") != "" {
		t.Errorf("the answer has %v", r.header)
	}
	wantPaths(t, paths(t, other, true, nil), "here/", "here/sub/", "here/sub/one", "here/two")
	wantPaths(t, paths(t, fs, true, nil), "full/", "full/x/")
}

// lakeDo is do for the dfs endpoint, at the account's host name.
func (f *fixture) lakeDo(method, path, content string, headers ...string) reply {
	f.t.Helper()
	return f.send(f.lakeNew(method, path, content, headers...))
}

func (f *fixture) lakeNew(method, path, content string, headers ...string) *http.Request {
	f.t.Helper()
	u, err := url.Parse(f.base)
	if err != nil {
		f.t.Fatal(err)
	}
	raw, _, _ := strings.Cut(path, "?")
	hr := &http.Request{Method: method, Host: auth.DevelopmentAccount + ".dfs.localhost", Header: http.Header{},
		ContentLength: int64(len(content)),
		URL:           must(url.Parse("http://" + u.Host + path))(f.t), Body: io.NopCloser(strings.NewReader(content))}
	if content == "" {
		hr.Body = http.NoBody
	}
	hr.Header.Set("x-ms-date", f.now().UTC().Format(http.TimeFormat))
	hr.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i+1 < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	developer.SharedKey(hr, raw)
	return hr
}

// A rename keeps the access control, the encryption context and the expiry: headers that would change them are refused.
func TestLakeRenameRefusesHeaders(t *testing.T) {
	t.Parallel()
	f := lake(t)
	writeFile(t, f.filesystem("files"), "f", "x")
	for _, name := range []string{"x-ms-acl", "x-ms-owner", "x-ms-group", "x-ms-encryption-context",
		"x-ms-expiry-option"} {
		f.lakeDo("PUT", "/files/g", "", "x-ms-rename-source", "/files/f", name, "user::rwx").want(t, 400, "UnsupportedHeader")
	}
	f.lakeDo("PUT", "/files/g", "", "x-ms-rename-source", "/files/f").want(t, 201, "")
}

func TestLakeDirectoryDelete(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	for i := range 20 {
		writeFile(t, fs, fmt.Sprintf("d/%02d/f", i), "content")
	}
	f.lakeDo("DELETE", "/files/d?recursive=false", "").want(t, 409, "DirectoryNotEmpty")
	must(fs.NewDirectoryClient("d").Delete(ctx, nil))(t)
	wantPaths(t, paths(t, fs, true, nil))
	_, err := fs.NewFileClient("d/01/f").GetProperties(ctx, nil)
	if err == nil {
		t.Error("a file in a deleted directory is there")
	}
	must(fs.NewDirectoryClient("d").Create(ctx, nil))(t)
	wantPaths(t, paths(t, fs, true, nil), "d/")
	f.clean()
	wantPaths(t, paths(t, fs, true, nil), "d/")
}

func TestLakeAccessControl(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	d := fs.NewDirectoryClient("d")
	must(d.Create(ctx, &directory.CreateOptions{Permissions: to.Ptr("0777"), Umask: to.Ptr("0057")}))(t)
	a := must(d.GetAccessControl(ctx, nil))(t)
	if *a.Permissions != "rwx-w----" || *a.ACL != "user::rwx,group::-w-,other::---" || *a.Owner != "$superuser" {
		t.Errorf("%s %s %s", *a.Permissions, *a.ACL, *a.Owner)
	}
	const acl = "user::rwx,user:bob:r-x,group::r-x,mask::r-x,other::---,default:user::rwx,default:user:bob:rw-,default:group::r-x,default:mask::rwx,default:other::---"
	must(d.SetAccessControl(ctx, &directory.SetAccessControlOptions{ACL: to.Ptr(acl)}))(t)
	if a := must(d.GetAccessControl(ctx, nil))(t); *a.ACL != acl || *a.Permissions != "rwxr-x---+" {
		t.Errorf("%s %s", *a.Permissions, *a.ACL)
	}
	child := writeFile(t, fs, "d/f", "")
	if a := must(child.GetAccessControl(ctx, nil))(t); *a.ACL != "user::rw-,user:bob:rw-,group::r-x,mask::rw-,other::---" {
		t.Errorf("the child's list is %s", *a.ACL)
	}
	for i := range 5 {
		writeFile(t, fs, fmt.Sprintf("d/sub/%d", i), "")
	}
	r := must(d.SetAccessControlRecursive(ctx, "user::rwx,group::r-x,other::--x",
		&directory.SetAccessControlRecursiveOptions{BatchSize: to.Ptr(int32(2))}))(t)
	if *r.DirectoriesSuccessful != 2 || *r.FilesSuccessful != 6 || *r.FailureCount != 0 {
		t.Errorf("%d directories, %d files, %d failures", *r.DirectoriesSuccessful, *r.FilesSuccessful, *r.FailureCount)
	}
	if a := must(child.GetAccessControl(ctx, nil))(t); *a.ACL != "user::rwx,group::r-x,other::--x" {
		t.Errorf("the child's list is %s", *a.ACL)
	}
	_, err := d.SetAccessControl(ctx, &directory.SetAccessControlOptions{ACL: to.Ptr("user::rwx,user::r-x")})
	wantAnswer(t, err, 400, "InvaldAccessControlList")
	_, err = d.SetAccessControl(ctx, &directory.SetAccessControlOptions{Permissions: to.Ptr("asdf")})
	wantAnswer(t, err, 400, "InvalidPermission")
}

func TestLakeLease(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	c := writeFile(t, fs, "f", "x")
	const id = "c820a799-76d7-4ee2-6e15-546f19325c2c"
	f.lakeDo("POST", "/files/f", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id",
		id).want(t, 201, "")
	_, err := c.Delete(ctx, nil)
	wantAnswer(t, err, 412, "LeaseIdMissing")
	_, err = c.AppendData(ctx, 1, body("y"), nil)
	wantAnswer(t, err, 412, "LeaseIdMissing")
	_, err = c.Rename(ctx, "g", nil)
	wantAnswer(t, err, 412, "LeaseIdMissing")
	must(
		c.Rename(ctx, "g",
			&file.RenameOptions{SourceAccessConditions: &file.SourceAccessConditions{
				SourceLeaseAccessConditions: &file.LeaseAccessConditions{LeaseID: to.Ptr(id)}}}))(t)
	g := fs.NewFileClient("g")
	_, err = g.Delete(ctx, nil)
	wantAnswer(t, err, 412, "LeaseIdMissing") // the lease moves with the file
	must(
		g.Delete(ctx,
			&file.DeleteOptions{AccessConditions: &file.AccessConditions{
				LeaseAccessConditions: &file.LeaseAccessConditions{LeaseID: to.Ptr(id)}}}))(t)
}

func TestLakePages(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	want := []string{"a/", "a/x", "a/y/", "a/y/z", "a-b", "b/", "c"}
	for _, p := range []string{"a/x", "a/y/z", "a-b", "c"} {
		writeFile(t, fs, p, "")
	}
	must(fs.NewDirectoryClient("b").Create(ctx, nil))(t)
	for n := int32(1); n <= 8; n++ {
		wantPaths(t, paths(t, fs, true, &filesystem.ListPathsOptions{MaxResults: to.Ptr(n)}), want...)
	}
	wantPaths(t, paths(t, fs, false, nil), "a/", "a-b", "b/", "c")
	wantPaths(t, paths(t, fs, true, &filesystem.ListPathsOptions{Prefix: to.Ptr("a/y")}), "a/y/z")
	pager := fs.NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: to.Ptr("nothing")})
	_, err := pager.NextPage(ctx)
	wantAnswer(t, err, 404, "PathNotFound")
}

// The same data through the Blob endpoint.
func TestLakeFromBlobEndpoint(t *testing.T) {
	t.Parallel()
	f := lake(t)
	c := f.container()
	fs := f.lakeService().NewFileSystemClient(nameOf(c))
	must(c.NewBlockBlobClient("dir/sub/blob").Upload(ctx, body("content"), nil))(t)
	wantPaths(t, paths(t, fs, true, nil), "dir/", "dir/sub/", "dir/sub/blob")
	if got := readFile(t, fs.NewFileClient("dir/sub/blob")); got != "content" {
		t.Errorf("content %q", got)
	}
	p := must(c.NewBlobClient("dir/sub").GetProperties(ctx, nil))(t)
	if v := p.Metadata["Hdi_isfolder"]; v == nil || *v != "true" || *p.ContentLength != 0 {
		t.Errorf("a directory has metadata %v and length %d", p.Metadata, *p.ContentLength)
	}
	_, err := c.NewBlobClient("dir").Delete(ctx, nil)
	wantAnswer(t, err, 409, "DirectoryIsNotEmpty")
	var names, prefixes []string
	flat := must(c.NewListBlobsFlatPager(nil).NextPage(ctx))(t)
	for _, item := range flat.Segment.BlobItems {
		names = append(names, *item.Name)
	}
	wantPaths(t, names, "dir", "dir/sub", "dir/sub/blob")
	must(c.NewBlockBlobClient("top").Upload(ctx, body(""), nil))(t)
	tree := must(c.NewListBlobsHierarchyPager("/",
		&container.ListBlobsHierarchyOptions{Include: container.ListBlobsInclude{Permissions: true}}).NextPage(ctx))(t)
	for _, item := range tree.Segment.BlobPrefixes {
		prefixes = append(prefixes, *item.Name)
	}
	names = nil
	for _, item := range tree.Segment.BlobItems {
		names = append(names, *item.Name)
		if item.Properties.Owner == nil || *item.Properties.Owner != "$superuser" ||
			*item.Properties.Permissions != "rw-r-----" {
			t.Errorf("%s: %+v", *item.Name, item.Properties)
		}
	}
	wantPaths(t, append(prefixes, names...), "dir/", "top")
	must(fs.NewDirectoryClient("dir").Rename(ctx, "renamed", nil))(t)
	r := must(c.NewBlobClient("renamed/sub/blob").DownloadStream(ctx, nil))(t)
	if got := string(must(io.ReadAll(r.Body))(t)); got != "content" {
		t.Errorf("content %q", got)
	}
	// Blocks that are uncommitted when their directory is renamed stay.
	b := c.NewBlockBlobClient("renamed/new")
	must(b.StageBlock(ctx, blockName(1), body("a"), nil))(t)
	must(fs.NewDirectoryClient("renamed").Rename(ctx, "again", nil))(t)
	must(c.NewBlockBlobClient("again/new").CommitBlockList(ctx, []string{blockName(1)}, nil))(t)
	if got := readFile(t, fs.NewFileClient("again/new")); got != "a" {
		t.Errorf("content %q", got)
	}
	_, err = c.NewBlobClient("top").SetTags(ctx, map[string]string{"a": "b"}, nil)
	wantAnswer(t, err, 400, "InvalidQueryParameterValue")
	must(c.NewBlockBlobClient("folder").Upload(ctx, body(""),
		&blockblob.UploadOptions{Metadata: map[string]*string{"hdi_isfolder": to.Ptr("true")}}))(t)
	wantPaths(t, paths(t, fs, false, nil), "again/", "folder/", "top")
	if got := must(c.NewBlobClient("top").GetAccountInfo(ctx, nil))(t); got.IsHierarchicalNamespaceEnabled == nil ||
		!*got.IsHierarchicalNamespaceEnabled {
		t.Errorf("account information %+v", got)
	}
	snapshot := must(c.NewBlobClient("top").CreateSnapshot(ctx, nil))(t)
	must(c.NewBlobClient("top").Delete(ctx,
		&blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
	if _, err := must(c.NewBlobClient("top").WithSnapshot(*snapshot.Snapshot))(t).GetProperties(ctx, nil); err == nil {
		t.Error("a snapshot of a deleted blob is there")
	}
}

func TestLakeSoftDelete(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.keepDeleted(7, "")
	c := f.container()
	fs := f.lakeService().NewFileSystemClient(nameOf(c))
	writeFile(t, fs, "d/one", "1")
	writeFile(t, fs, "d/two", "2")
	r := f.lakeDo("DELETE", "/"+nameOf(c)+"/d?recursive=true", "").want(t, 200, "")
	id := r.header.Get("x-ms-deletion-id")
	if id == "" || r.header.Get("x-ms-delete-type-permanent") != "false" {
		t.Fatalf("the answer has %v", r.header)
	}
	list := f.do("GET", "/"+nameOf(c)+"?restype=container&comp=list&showonly=deleted", "").want(t, 200, "")
	if !strings.Contains(list.body, "<Name>d</Name><DeletionId>"+id+"</DeletionId>") {
		t.Errorf("deleted paths: %s", list.body)
	}
	wantPaths(t, paths(t, fs, true, nil))
	f.clean()
	r = f.lakeDo("PUT", "/"+nameOf(c)+"/d?comp=undelete", "", "x-ms-undelete-source", "d?deletionid="+id).want(t, 200, "")
	if r.header.Get("x-ms-resource-type") != "directory" {
		t.Fatalf("the answer has %v", r.header)
	}
	wantPaths(t, paths(t, fs, true, nil), "d/", "d/one", "d/two")
	if got := readFile(t, fs.NewFileClient("d/two")); got != "2" {
		t.Errorf("content %q", got)
	}
	// The source without a path is the path of the request.
	r = f.lakeDo("DELETE", "/"+nameOf(c)+"/d?recursive=true", "").want(t, 200, "")
	f.lakeDo("PUT", "/"+nameOf(c)+"/d?comp=undelete", "", "x-ms-undelete-source",
		"?deletionid="+r.header.Get("x-ms-deletion-id")).want(t, 200, "")
	wantPaths(t, paths(t, fs, true, nil), "d/", "d/one", "d/two")
	must(fs.NewDirectoryClient("d").Delete(ctx, nil))(t)
	f.advance(8 * 24 * time.Hour)
	f.clean()
	f.clean()
}

func TestLakeExpiry(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	c := writeFile(t, fs, "d/f", "x")
	must(c.SetExpiry(ctx, file.SetExpiryValues{ExpiryType: file.SetExpiryTypeRelativeToNow, ExpiresOn: "60000"}, nil))(t)
	must(fs.NewDirectoryClient("d").Rename(ctx, "e", nil))(t)
	wantPaths(t, paths(t, fs, true, nil), "e/", "e/f")
	f.advance(2 * time.Minute)
	wantPaths(t, paths(t, fs, true, nil), "e/")
	f.clean()
	wantPaths(t, paths(t, fs, true, nil), "e/")
	c = writeFile(t, fs, "e/f", "again")
	if got := readFile(t, c); got != "again" {
		t.Errorf("content %q", got)
	}
}
