package blobsvc_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/file"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// The tests of this file assert what the tests and programs of clients expect: see docs/compatibility.md.

func TestLakeRenameConditionsOfSource(t *testing.T) {
	t.Parallel()
	fs := lake(t).filesystem("one")
	c := writeFile(t, fs, "a", "x")
	other := azcore.ETag(`"0x1"`)
	_, err := c.Rename(ctx, "b", &file.RenameOptions{SourceAccessConditions: &file.SourceAccessConditions{
		SourceModifiedAccessConditions: &file.SourceModifiedAccessConditions{SourceIfMatch: &other}}})
	wantAnswer(t, err, 412, "SourceConditionNotMet")
	_, err = c.Rename(ctx, "b", &file.RenameOptions{AccessConditions: &file.AccessConditions{
		ModifiedAccessConditions: &file.ModifiedAccessConditions{IfMatch: &other}}})
	wantAnswer(t, err, 412, "ConditionNotMet")
	etag := must(c.GetProperties(ctx, nil))(t).ETag
	r := must(c.Rename(ctx, "b", nil))(t)
	if r.ETag == nil || *r.ETag != *etag || r.LastModified == nil {
		t.Errorf("a rename answers with the entity tag %v and the time %v, want %s", r.ETag, r.LastModified, *etag)
	}
	if r = must(fs.NewFileClient("b").Rename(ctx, "b", nil))(t); r.ETag == nil || *r.ETag != *etag {
		t.Errorf("a rename to the same path answers with the entity tag %v, want %s", r.ETag, *etag)
	}
}

// A umask that is sent limits an access control list, and the default one does not.
func TestLakeListWithUmask(t *testing.T) {
	t.Parallel()
	fs := lake(t).filesystem("one")
	for umask, want := range map[string]string{"": "rwxr-xrwx", "0000": "rwxr-xrwx", "0027": "rwxr-x---"} {
		c := fs.NewFileClient("file" + umask)
		o := &file.CreateOptions{ACL: to.Ptr("user::rwx,group::r-x,other::rwx")}
		if umask != "" {
			o.Umask = &umask
		}
		must(c.Create(ctx, o))(t)
		if p := must(c.GetAccessControl(ctx, nil))(t); *p.Permissions != want {
			t.Errorf("with umask %q: %s, want %s", umask, *p.Permissions, want)
		}
	}
}

func TestLakeDepth(t *testing.T) {
	t.Parallel()
	fs := lake(t).filesystem("one")
	deepest := strings.Repeat("d/", 59) + "d"
	must(fs.NewDirectoryClient(deepest).Create(ctx, nil))(t)
	_, err := fs.NewDirectoryClient(deepest+"/d").Create(ctx, nil)
	wantAnswer(t, err, 409, "PathIsTooDeep")
	_, err = fs.NewFileClient(deepest+"/d").Create(ctx, nil)
	wantAnswer(t, err, 409, "PathIsTooDeep")

	// A rename moves what is below it, also to where no request could create it.
	for i := range 3 {
		must(fs.NewDirectoryClient("e").Create(ctx, nil))(t)
		must(fs.NewDirectoryClient("d").Rename(ctx, "e/d", nil))(t)
		must(fs.NewDirectoryClient("e").Rename(ctx, "d", nil))(t)
		if n, want := len(paths(t, fs, true, nil)), 61+i; n != want {
			t.Fatalf("%d paths, want %d", n, want)
		}
	}
	must(fs.NewDirectoryClient("d").Delete(ctx, nil))(t)
	wantPaths(t, paths(t, fs, true, nil))
}

// The clients read the encryption context from listings, and from the Blob endpoint.
func TestLakeEncryptionContext(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	c := fs.NewFileClient("a")
	must(c.Create(ctx, &file.CreateOptions{EncryptionContext: to.Ptr("context")}))(t)
	if p := must(c.GetProperties(ctx, nil))(t); p.EncryptionContext == nil || *p.EncryptionContext != "context" {
		t.Errorf("properties have the context %v", p.EncryptionContext)
	}
	page := must(fs.NewListPathsPager(true, nil).NextPage(ctx))(t)
	if got := page.Paths[0].EncryptionContext; got == nil || *got != "context" {
		t.Errorf("the listing has the context %v", got)
	}
}

func TestLakeListOfOneKind(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	for _, name := range []string{"a/b/c", "a/d", "e"} {
		writeFile(t, fs, name, "")
	}
	for query, want := range map[string]string{
		"directories": "a a/b", "files": "a/b/c a/d e", "files&delimiter=/": "e", "directories&delimiter=/": "a/",
		"directories&prefix=a/": "a/b",
	} {
		body := f.do("GET", "/one?restype=container&comp=list&showonly="+query, "").want(t, 200, "").body
		var names []string
		for part := range strings.SplitSeq(body, "<Name>") {
			if name, _, ok := strings.Cut(part, "</Name>"); ok {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("showonly=%s: %q, want %q", query, got, want)
		}
	}
	f.do("GET", "/one?restype=container&comp=list&showonly=pages", "").want(t, 400, "InvalidQueryParameterValue")
	pager := fs.NewListDirectoryPathsPager(&filesystem.ListDirectoryPathsOptions{MaxResults: to.Ptr(int32(1))})
	for _, want := range []string{"a", "a/b"} {
		page := must(pager.NextPage(ctx))(t)
		if got := page.Segment.PathItems; len(got) != 1 || *got[0].Name != want {
			t.Errorf("a page has %v, want %s", got, want)
		}
	}
}

// Hadoop sends PATCH as PUT with a header.
func TestLakeMethodOverride(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	c := writeFile(t, fs, "a", "")
	f.lakeDo("PUT", "/one/a?action=append&position=0", "text", "X-HTTP-Method-Override", "PATCH").want(t, 202, "")
	f.lakeDo("PUT", "/one/a?action=flush&position=4", "", "X-HTTP-Method-Override", "patch").want(t, 200, "")
	if got := readFile(t, c); got != "text" {
		t.Errorf("content %q", got)
	}
	for _, verb := range []string{"FLY", "DELETE", "POST", "PATCH"} { // without an action the signature is that of a PUT
		f.lakeDo("PUT", "/one/a?resource=file", "", "X-HTTP-Method-Override", verb).want(t, 405, "UnsupportedHttpVerb")
	}
	f.lakeDo("PUT", "/one?resource=filesystem", "", "X-HTTP-Method-Override", "PATCH", "x-ms-properties", "a=MQ==").
		want(t, 200, "")
	f.lakeDo("PUT", "/one/a?action=append&position=4", "text").want(t, 405, "UnsupportedHttpVerb")
}

// Without the mode legacy a rename to a directory that exists moves the source below it, as Hadoop's tests want.
func TestLakeRenameIntoDirectory(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	for _, name := range []string{"a/b/f", "a/g", "c/x", "d/b/y"} {
		writeFile(t, fs, name, "")
	}
	rename := func(to, from string, headers ...string) reply {
		return f.lakeDo("PUT", "/one/"+to, "", append(headers, "x-ms-rename-source", "/one/"+from)...)
	}
	rename("c", "a/b", "If-None-Match", "*").want(t, 201, "")
	rename("c?mode=posix", "a/g").want(t, 201, "")
	wantPaths(t, paths(t, fs, true, nil), "a/", "c/", "c/b/", "c/b/f", "c/g", "c/x", "d/", "d/b/", "d/b/y")
	rename("d", "c/b", "If-None-Match", "*").want(t, 409, "PathAlreadyExists")
	rename("d", "c/b").want(t, 409, "DirectoryNotEmpty")
	rename("d?mode=legacy", "c/b").want(t, 409, "DirectoryNotEmpty")
	rename("a?mode=legacy", "c/b").want(t, 201, "")
	rename("a", "a").want(t, 201, "")
	rename("c", "c/g").want(t, 201, "")
	rename("c/g", "c").want(t, 409, "InvalidRenameSourcePath")
	rename("d/b", "d").want(t, 409, "InvalidRenameSourcePath")
	rename("", "d/b").want(t, 201, "")
	wantPaths(t, paths(t, fs, true, nil), "a/", "a/f", "b/", "b/y", "c/", "c/g", "c/x", "d/")
}

// Hadoop finds by the ID of its request whether a creation or a rename was done whose answer was lost.
func TestLakeTransaction(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("one")
	transaction := func(path string) string {
		return f.lakeDo("HEAD", "/one/"+path+"?action=getStatus", "").want(t, 200,
			"").header.Get("X-Ms-Client-Transaction-Id")
	}
	const header = "x-ms-client-transaction-id"
	for _, id := range []string{"first", "second", ""} {
		f.lakeDo("PUT", "/one/d/a?resource=file", "", header, id).want(t, 201, "")
		if got := transaction("d/a"); got != id {
			t.Errorf("created with %q: %q", id, got)
		}
	}
	if got := transaction("d"); got != "" {
		t.Errorf("the directory above has %q", got)
	}
	f.lakeDo("PUT", "/one/d/b", "", "x-ms-rename-source", "/one/d/a", header, "third").want(t, 201, "")
	if got := transaction("d/b"); got != "third" {
		t.Errorf("renamed with third: %q", got)
	}
	f.lakeDo("PUT", "/one/d/c?resource=file", "", header, strings.Repeat("x", 129)).want(t, 400, "InvalidHeaderValue")
}

// The error of a creation that replaces nothing says what exists.
func TestLakeExistingKind(t *testing.T) {
	t.Parallel()
	f := lake(t)
	writeFile(t, f.filesystem("one"), "d/f", "")
	for path, want := range map[string]string{"d?resource=directory": "directory", "d/f?resource=file": "file",
		"?resource=directory": "directory"} {
		r := f.lakeDo("PUT", "/one/"+path, "", "If-None-Match", "*").want(t, 409, "PathAlreadyExists")
		if got := r.header.Get("X-Ms-Existing-Resource-Type"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// Hadoop sets lists without the entries of owner, group and others, which stay then, and expects that a file has no
// default list.
func TestLakePartOfList(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	must(fs.NewDirectoryClient("d").Create(ctx,
		&directory.CreateOptions{Permissions: to.Ptr("0750"), Umask: to.Ptr("0000")}))(t)
	writeFile(t, fs, "f", "")
	for _, tc := range [][2]string{
		{"default:user:a:rwx", "user::rwx,group::r-x,other::---," +
			"default:user::rwx,default:user:a:rwx,default:group::r-x,default:mask::rwx,default:other::---"},
		{"mask::--x", "user::rwx,group::r-x,mask::--x,other::---"},
		{"user:a:rw-,group::---", "user::rwx,user:a:rw-,group::---,mask::rw-,other::---"},
		{"default:other::r--", "user::rwx,user:a:rw-,group::---,mask::rw-,other::---," +
			"default:user::rwx,default:group::---,default:other::r--"},
	} {
		f.lakeDo("PATCH", "/one/d?action=setAccessControl", "", "x-ms-acl", tc[0]).want(t, 200, "")
		if got := *must(fs.NewDirectoryClient("d").GetAccessControl(ctx, nil))(t).ACL; got != tc[1] {
			t.Errorf("%s: %s, want %s", tc[0], got, tc[1])
		}
	}
	f.lakeDo("PATCH", "/one/f?action=setAccessControl", "", "x-ms-acl", "default:other::r--").want(t, 400,
		"InvaldAccessControlList")
}

// Hadoop asks for append blobs, to which it adds with no flush between.
func TestLakeAppendBlob(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs, box := f.filesystem("one"), f.service().NewContainerClient("one")
	f.lakeDo("PUT", "/one/d?resource=directory&blobtype=appendblob", "").want(t, 201, "")
	f.lakeDo("PUT", "/one/d/b?resource=file&blobtype=blockblob", "").want(t, 201, "")
	f.lakeDo("PUT", "/one/d/f?resource=file&blobtype=pageblob", "").want(t, 400, "InvalidQueryParameterValue")
	f.lakeDo("PUT", "/one/d/f?resource=file&blobtype=AppendBlob", "").want(t, 201, "")
	c := fs.NewFileClient("d/f")
	for i, want := range []string{"one ", "one two ", "one two three"} {
		text := strings.Fields(want)[i]
		if i < 2 {
			text += " "
		}
		at := int64(len(want) - len(text))
		must(c.AppendData(ctx, at, body(text), nil))(t)
		if got := readFile(t, c); got != want {
			t.Errorf("content %q, want %q", got, want)
		}
		_, err := c.AppendData(ctx, at, body(text), nil) // it was there already
		wantAnswer(t, err, 400, "InvalidQueryParameterValue")
	}
	must(fs.NewDirectoryClient("d").Rename(ctx, "e", nil))(t)
	c = fs.NewFileClient("e/f")
	must(c.AppendData(ctx, 13, body("!"), &file.AppendDataOptions{Flush: to.Ptr(true)}))(t)
	_, err := c.FlushData(ctx, 15, nil)
	wantAnswer(t, err, 400, "InvalidFlushPosition")
	must(c.FlushData(ctx, 14, &file.FlushDataOptions{Close: to.Ptr(true)}))(t)
	if got := readFile(t, c); got != "one two three!" {
		t.Errorf("content %q", got)
	}
	p := must(box.NewBlobClient("e/f").GetProperties(ctx, nil))(t)
	if *p.BlobType != blob.BlobTypeAppendBlob || *p.BlobCommittedBlockCount != 4 {
		t.Errorf("the blob is a %s of %d blocks", *p.BlobType, *p.BlobCommittedBlockCount)
	}
	_, err = box.NewAppendBlobClient("e/f").AppendBlock(ctx, body("x"), nil)
	wantAnswer(t, err, 409, "BlobOperationNotSupported")
	must(box.NewAppendBlobClient("log").Create(ctx, nil))(t)
	must(box.NewAppendBlobClient("log").AppendBlock(ctx, body("x"), nil))(t)
	_, err = fs.NewFileClient("log").AppendData(ctx, 1, body("y"), nil)
	wantAnswer(t, err, 409, "InvalidAppendOperation")
}

// Either endpoint overwrites a file, and only the one that made it adds to it.
func TestLakeEndpointsAddToTheirOwn(t *testing.T) {
	t.Parallel()
	for _, f := range []*fixture{lake(t), start(t)} {
		fs, box := f.filesystem("one"), f.service().NewContainerClient("one")
		c, b := writeFile(t, fs, "d/f", "text"), box.NewBlockBlobClient("d/f")
		must(box.NewBlockBlobClient("source").Upload(ctx, body("source"), nil))(t)
		source := must(box.NewBlobClient("source").GetSASURL(sas.BlobPermissions{Read: true}, f.now().Add(time.Hour), nil))(t)
		refused := func(err error) {
			t.Helper()
			wantAnswer(t, err, 409, "BlobOperationNotSupported")
			if got := readFile(t, c); got != "text" {
				t.Errorf("content %q", got)
			}
		}
		_, err := b.StageBlock(ctx, blockName(1), body("block"), nil)
		refused(err)
		_, err = b.StageBlock(ctx, blockName(1), body(strings.Repeat("x", 2<<20)), nil) // which is checked before it is read
		refused(err)
		_, err = b.StageBlockFromURL(ctx, blockName(1), source, nil)
		refused(err)
		_, err = b.CommitBlockList(ctx, nil, nil)
		refused(err)
		must(c.AppendData(ctx, 4, body("more"), nil))(t)

		must(b.Upload(ctx, body("put"), nil))(t)
		_, err = c.AppendData(ctx, 3, body("more"), nil)
		wantAnswer(t, err, 409, "InvalidAppendOperation")
		_, err = c.AppendData(ctx, 3, body(strings.Repeat("x", 2<<20)), nil)
		wantAnswer(t, err, 409, "InvalidAppendOperation")
		_, err = c.AppendData(ctx, 3, body("more"), &file.AppendDataOptions{Flush: to.Ptr(true)})
		wantAnswer(t, err, 409, "InvalidAppendOperation")
		_, err = c.FlushData(ctx, 3, nil)
		wantAnswer(t, err, 409, "InvalidFlushOperation")
		must(b.StageBlock(ctx, blockName(1), body("block"), nil))(t)
		must(b.CommitBlockList(ctx, []string{blockName(1)}, nil))(t)
		if got := readFile(t, c); got != "block" {
			t.Errorf("content %q", got)
		}

		must(c.Create(ctx, nil))(t)
		must(c.AppendData(ctx, 0, body("again"), nil))(t)
		must(c.FlushData(ctx, 5, nil))(t)
		if got := readFile(t, c); got != "again" {
			t.Errorf("content %q", got)
		}
		// A copy is a blob of its own.
		source = must(b.BlobClient().GetSASURL(sas.BlobPermissions{Read: true}, f.now().Add(time.Hour), nil))(t)
		must(box.NewBlockBlobClient("copy").CopyFromURL(ctx, source, nil))(t)
		must(box.NewBlockBlobClient("copy").StageBlock(ctx, blockName(1), body("block"), nil))(t)
	}
}

// The root has a status and access control, and no properties.
func TestLakePropertiesOfRoot(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("one")
	f.lakeDo("HEAD", "/one/?action=getStatus", "").want(t, 200, "")
	f.lakeDo("HEAD", "/one/?action=getAccessControl", "").want(t, 200, "")
	if r := f.lakeDo("HEAD", "/one/", ""); r.status != 400 || r.code() != "InvalidUri" {
		t.Errorf("get: %d %s", r.status, r.code())
	}
	f.lakeDo("PATCH", "/one/?action=setProperties", "", "x-ms-properties", "a=MQ==").want(t, 400, "InvalidUri")
}

// renameMode sends renames with another mode than the client's, none for "".
type renameMode string

func (m renameMode) Do(r *policy.Request) (*http.Response, error) {
	if u := r.Raw().URL; u.Query().Has("mode") {
		q := u.Query()
		q.Del("mode")
		if m != "" {
			q.Set("mode", string(m))
		}
		u.RawQuery = q.Encode()
	}
	return r.Next()
}

// What a rename does to a destination that exists depends on its mode, which azdatalake always sets to legacy.
// Users of the service report the same of directories (microsoft/AzureStorageExplorer#3811), and the specification says
// it of them (Azure/azure-rest-api-specs#45340).
func TestLakeRenameModes(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	for _, mode := range []renameMode{"legacy", "posix", ""} {
		o := &filesystem.ClientOptions{ClientOptions: f.lakeOptions()}
		o.PerCallPolicies = []policy.Policy{mode}
		key := must(azdatalake.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(t)
		fs2 := must(filesystem.NewClientWithSharedKeyCredential(fs.DFSURL(), key, o))(t)
		into := mode != "legacy"
		for _, tc := range []struct {
			name, from, to string
			code           string // of legacy
			below, instead []string
		}{
			{"a directory to an empty one", "dir", "empty", "",
				[]string{"empty/", "empty/dir/", "empty/dir/a"}, []string{"empty/", "empty/a"}},
			{"a directory to another", "dir", "full", "DirectoryNotEmpty",
				[]string{"full/", "full/dir/", "full/dir/a", "full/x"}, nil},
			{"a file to a directory", "file", "full", "InvalidSourceOrDestinationResourceType",
				[]string{"full/", "full/file", "full/x"}, nil},
			{"a file to a file", "file", "other", "", []string{"other"}, []string{"other"}},
			{"a directory to a name that is free", "dir", "new", "",
				[]string{"new/", "new/a"}, []string{"new/", "new/a"}},
		} {
			for _, name := range []string{"dir/a", "full/x", "file", "other"} {
				writeFile(t, fs, name, "")
			}
			must(fs.NewDirectoryClient("empty").Create(ctx, nil))(t)
			before := paths(t, fs, true, nil)
			_, err := fs2.NewDirectoryClient(tc.from).Rename(ctx, tc.to, nil)
			want := tc.instead
			if into {
				want = tc.below
			}
			if tc.code != "" && !into {
				wantAnswer(t, err, 409, tc.code)
				wantPaths(t, paths(t, fs, true, nil), before...)
			} else if err != nil {
				t.Errorf("mode %q, %s: %v", mode, tc.name, err)
			} else {
				var got []string
				for _, p := range paths(t, fs, true, nil) {
					if p == tc.to || strings.HasPrefix(p, tc.to+"/") {
						got = append(got, p)
					}
					if p == tc.from || p == tc.from+"/" {
						t.Errorf("mode %q, %s: the source is there", mode, tc.name)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("mode %q, %s: %q, want %q", mode, tc.name, got, want)
				}
			}
			for _, p := range paths(t, fs, false, nil) {
				f.lakeDo("DELETE", "/one/"+strings.TrimSuffix(p, "/")+"?recursive=true", "").want(t, 200, "")
			}
		}
	}
}

// A creation that replaces nothing fails for what exists, and not for its lease.
func TestLakeCreateBesideLease(t *testing.T) {
	t.Parallel()
	f := lake(t)
	writeFile(t, f.filesystem("one"), "f", "")
	f.lakeDo("POST", "/one/f", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id",
		leaseA).want(t, 201, "")
	f.lakeDo("PUT", "/one/f?resource=file", "").want(t, 412, "LeaseIdMissing")
	f.lakeDo("PUT", "/one/f?resource=file", "", "If-None-Match", "*").want(t, 409, "PathAlreadyExists")
	f.lakeDo("POST", "/one/f", "", "x-ms-lease-action", "break").want(t, 202, "")
	body := f.lakeDo("PUT", "/one/f?resource=file", "", "x-ms-lease-id", leaseA).want(t, 412, "LeaseLost").body
	if !strings.Contains(body, "the lease for the resource has expired") {
		t.Errorf("the message is %s", body)
	}
}

// Hadoop begins a listing at a name with a token in the form of the service's own.
func TestLakeTokenOfName(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("one")
	for _, name := range []string{"a", "b/c", "b/d", "e"} {
		writeFile(t, fs, name, "")
	}
	list := func(query, token string) string {
		token = base64.StdEncoding.EncodeToString([]byte(token))
		r := f.lakeDo("GET", "/one?resource=filesystem&recursive=false&continuation="+token+query, "").want(t, 200, "")
		var names []string
		for _, part := range strings.Split(r.body, `"name":"`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	if got := list("", "-123 0 b"); got != "b e" {
		t.Errorf("from b: %s", got)
	}
	if got := list("&directory=b", "77 0 d"); got != "b/d" {
		t.Errorf("from d in b: %s", got)
	}
	token := base64.StdEncoding.EncodeToString([]byte("x 0 b"))
	f.lakeDo("GET", "/one?resource=filesystem&recursive=false&continuation="+token, "").want(t, 400,
		"InvalidQueryParameterValue")
}

// The properties of a file with a customer-provided key need the key; its status does not.
func TestLakePropertiesNeedKey(t *testing.T) {
	t.Parallel()
	f := lake(t)
	f.filesystem("one")
	key := keyHeaders("x-ms-encryption-", cpk(1))
	f.lakeDo("PUT", "/one/f?resource=file", "", append(key, "x-ms-encryption-context", "context")...).want(t, 201, "")
	r := f.lakeDo("HEAD", "/one/f?action=getStatus", "").want(t, 200, "")
	if got := r.header.Get("X-Ms-Encryption-Context"); got != "context" {
		t.Errorf("the status has the context %q", got)
	}
	r = f.lakeDo("PATCH", "/one/f?action=flush&position=0", "", key...).want(t, 200, "")
	if got := r.header.Get("X-Ms-Request-Server-Encrypted"); got != "true" {
		t.Errorf("a flush is encrypted: %q", got)
	}
	list := f.lakeDo("GET", "/one?resource=filesystem&recursive=true", "").want(t, 200, "").body
	if want := `"CustomerProvidedKeySha256":"` + key[3] + `"`; !strings.Contains(list, want) {
		t.Errorf("the listing is %s", list)
	}
	f.lakeDo("HEAD", "/one/f", "").want(t, 409, "BlobUsesCustomerSpecifiedEncryption")
	f.lakeDo("HEAD", "/one/f", "", key...).want(t, 200, "")
	set := []string{"x-ms-properties", "a=Yg=="}
	f.lakeDo("PATCH", "/one/f?action=setProperties", "", set...).want(t, 409, "BlobUsesCustomerSpecifiedEncryption")
	r = f.lakeDo("PATCH", "/one/f?action=setProperties", "", append(set, key...)...).want(t, 200, "")
	if got := r.header.Get("X-Ms-Encryption-Key-Sha256"); got != key[3] ||
		r.header.Get("X-Ms-Request-Server-Encrypted") != "true" {
		t.Errorf("the answer has %v", r.header)
	}
}

// A listing of a file has the file.
func TestLakeListOfFile(t *testing.T) {
	t.Parallel()
	fs := lake(t).filesystem("one")
	writeFile(t, fs, "a/b", "x")
	writeFile(t, fs, "a/b2", "x")
	wantPaths(t, paths(t, fs, false, &filesystem.ListPathsOptions{Prefix: to.Ptr("a/b")}), "a/b")
	wantPaths(t, paths(t, fs, true, &filesystem.ListPathsOptions{Prefix: to.Ptr("a/b")}), "a/b")
}

// The service takes any continuation token of a recursive change, and changes nothing if it is not one of its own.
func TestLakeUnknownContinuation(t *testing.T) {
	t.Parallel()
	fs := lake(t).filesystem("one")
	writeFile(t, fs, "a/b", "")
	r := must(fs.NewDirectoryClient("a").SetAccessControlRecursive(ctx, "user::rwx,group::r-x,other::rwx",
		&directory.SetAccessControlRecursiveOptions{Marker: to.Ptr("any")}))(t)
	if got := fmt.Sprint(*r.DirectoriesSuccessful, *r.FilesSuccessful, *r.FailureCount); got != "0 0 0" {
		t.Errorf("changed %s", got)
	}
}

// A creation with a list that is not valid, or too long, fails as a change of the list does, and leaves nothing.
func TestLakeCreateWithWrongList(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	var long []string
	for i := range 29 {
		long = append(long, fmt.Sprintf("user:u%d:r--", i))
	}
	for _, acl := range []string{"user::rwx", strings.Join(append(long, "user::rwx,group::---,other::---"), ",")} {
		for _, kind := range []string{"file", "directory"} {
			f.lakeDo("PUT", "/files/new/"+kind+"?resource="+kind, "", "x-ms-acl", acl).want(t, 400, "InvaldAccessControlList")
		}
	}
	wantPaths(t, paths(t, fs, true, nil))
}

func TestLakeFlushWithContent(t *testing.T) {
	t.Parallel()
	f := lake(t)
	writeFile(t, f.filesystem("files"), "f", "x")
	f.lakeDo("PATCH", "/files/f?action=flush&position=1", "y").want(t, 400, "ContentLengthMustBeZero")
}
